"""Commands that are typed in another way, or of other programs, are answered with one that can be
pasted.
"""

import shlex
from functools import partial
from pathlib import Path

import pytest

from rltrain import main as entry
from rltrain.config.catalog import SHIPPED
from rltrain.config.command_line import STRANGE, read
from rltrain.config.compose import compose_checked, refusal
from rltrain.config.suggest.translate import TAKEN, command_problem, translated
from rltrain.config.validate.mode_keys import LOADED, require_read
from rltrain.errors import UsageError

LINES = Path(__file__).parents[2] / "data" / "other_tools_lines.txt"
REFUSAL = partial(refusal, SHIPPED, [])


def answers():
    """Each line with what is to be printed, and the names that are to be left out."""
    blocks, text = [], LINES.read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith(("> ", ">")):
            blocks[-1][1] = line.removeprefix(">").strip()
        elif line.startswith("- "):
            blocks[-1][2] = line.removeprefix("- ").split("; ")
        elif line and not line.startswith("#"):
            blocks.append([line, None, []])
    return blocks


@pytest.fixture(scope="module", params=[8, pytest.param(1, marks=pytest.mark.slow)])
def lines(request):
    """Every eighth line, or all of them."""
    return answers()[:: request.param]


@pytest.fixture(scope="module")
def printed(lines):
    return {line: translated(shlex.split(line), SHIPPED, REFUSAL) for line, *_ in lines}


def test_every_line_is_answered_with_what_it_means(lines, printed):
    assert len(answers()) > 220
    meant = {line: f"rltrain {typed}".strip() for line, typed, _ in lines}
    assert {line: str(done) for line, done in printed.items()} == meant


def test_what_cannot_be_kept_is_named(lines, printed):
    said = {line: [text.partition(" (")[0] for text in d.left_out] for line, d in printed.items()}
    assert said == {line: left_out for line, _, left_out in lines}


def test_every_printed_command_is_accepted_when_typed(printed):
    for command in sorted({str(done) for done in printed.values()}):
        line = read(shlex.split(command)[1:])
        if line.asks is None:
            assert not any(map(STRANGE.match, line.overrides))
            for overrides in entry.list_jobs(line).values():
                compose_checked(overrides).settings()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["python", "train.py", "-c", "dqn.yml", "-i", "x.zip"], "conf_file"),
        (["python", "-m", "rl_zoo3.train", "--algo", "dqn"], "\n  rltrain algo=dqn"),
        (["python3", "src/main.py", "--config=qmix", "--help"], "\n  rltrain --help algo=qmix"),
        *(
            ([f"--env_config={{a: {value}}}"], f"Left out: env={{a: {value}}}")
            for value in ("2020-99-99", "!!bool x", "!!int ''", "!!timestamp x")
        ),
    ],
)
def test_flags_of_other_programs_are_not_taken_for_ours(typed, said):
    with pytest.raises(UsageError) as caught:
        entry.run(typed)
    assert said in str(caught.value)


def test_a_model_of_pymarl_is_imported_first(tmp_path):
    model = tmp_path / "1000"
    model.mkdir()
    (model / "agent.th").touch()
    line = f"--config=qmix --env-config=sc2 with evaluate=True checkpoint_path={tmp_path}"
    done = translated(line.split(), SHIPPED, REFUSAL)
    assert str(done) == f"rltrain mode=import algo=qmix env=smac checkpoint={tmp_path}"
    assert "rltrain mode=evaluate checkpoint=latest afterward" in done.left_out[-1]


OURS = [
    *("logger=[]", "logger=[csv,tensorboard]", "env.opponents={builtin:0.5}", "seed=3"),
    *("+algo.optimizer.weight_decay=0.1", "algo.loss.double=false", "stop.hours=null"),
    "algo/network=gru",
]


@pytest.mark.parametrize("override", OURS)
@pytest.mark.parametrize("wrong", ["qmix", "--algo qmix", "algo==qmix"])
def test_what_is_right_beside_a_mistake_is_kept(override, wrong):
    """Defect: empty lists and mappings were left out."""
    said = command_problem([*wrong.split(), override], SHIPPED)
    assert override in shlex.split(said.splitlines()[1])
    assert "Left out" not in said


def test_what_has_no_counterpart_is_named():
    said = command_problem(["--algo=ppo", "--use-tensorboard", "--record-video", "--x=1"], SHIPPED)
    assert "rltrain algo=pqn 'logger=[tensorboard]'" in said
    assert "ppo (the nearest: ppo is an actor-critic method" in said
    assert "record_video (type rltrain mode=evaluate checkpoint=latest record=video after" in said
    assert said.endswith("x=1.")


def test_what_was_used_is_not_left_out():
    said = command_problem(["dqn", "cartpole", "10000"], SHIPPED)
    assert said.endswith("Type\n  rltrain algo=dqn env=cartpole total_env_steps=10000")


def test_values_with_blanks_stay_pasteable():
    done = translated(["--checkpoint", "a b", "--net-arch", "64"], SHIPPED)
    assert str(done) == "rltrain 'checkpoint=a b' 'algo.network.hidden_sizes=[64]' algo/network=mlp"


@pytest.mark.parametrize("value", ["it's", 'a"b', "a b", "$x", "(", "\\", ""])
@pytest.mark.parametrize("name", ["--stop-reward", "--checkpoint", "--exp-name", "--wandb-entity"])
def test_no_value_breaks_the_quotes_of_a_command(own_folder, name, value):
    """Defect: a quote in a value ended in a traceback."""
    (own_folder / f"{value or 'x'}.yaml").write_text("seed: 1")
    for typed in ([name, value], ["--algo", "dqn", name, value], [f"experiment={value}", name]):
        for line in str(translated(typed, SHIPPED)).splitlines():
            assert shlex.split(line)


@pytest.mark.parametrize("typed", [["doctor"], ["--algo", "dqn"], ["algo=dqn", "seed"], ["-x"]])
def test_command_line_refuses_them_with_it(typed):
    with pytest.raises(UsageError) as caught:
        entry.run(typed)
    assert str(caught.value) == command_problem(typed, SHIPPED, REFUSAL)


@pytest.mark.parametrize("mode", sorted(TAKEN.keys() & LOADED))
@pytest.mark.parametrize(
    "word",
    [
        *("record=video", "seed=1", "test.episodes=3", "test.n_envs=2", "test.n_workers=2"),
        *("hub.repo=me/model", "hardware.device=cpu", "trust=[mine]", "load_step=best"),
    ],
)
def test_a_mode_that_loads_a_run_is_given_only_keys_that_it_reads(mode, word):
    """Defect: mode=push with seed= was suggested, and refused."""
    done = translated([f"mode={mode}", "checkpoint=latest", word], SHIPPED)
    overrides = [o for each in done.overrides.values() for o in shlex.split(each)]
    require_read(overrides, mode)
    assert word in overrides or word.partition("=")[0] in "".join(done.left_out)
