"""Runs against opponents: which are refused, what a run keeps of them, and what it reports."""

import json
import shutil
from pathlib import Path

import pytest

import rltrain
from rltrain.common.checkpoint.run_checkpoints import seal, stored_manifest
from rltrain.common.files import get_json
from rltrain.errors import CheckpointError, UsageError
from rltrain.trainer import Trainer
from tests.integration.promises.checks import resume, workers
from tests.integration.promises.checks import whole_run as whole_run_of
from tests.integration.promises.states import BATTLE, COMMON, State, typed_words

SMALL = (*COMMON, "algo=vdn", *BATTLE, "total_env_steps=200", "test.interval=100")


def trained(folder: Path, *words: str) -> rltrain.Result:
    """A small run in a folder, from the command's point of view."""
    typed = typed_words(*SMALL, *words, "logger=[]", f"hydra.run.dir={folder}")
    return rltrain.train([*typed.values()], progress=False)


def made(folder: Path, *words: str) -> Trainer:
    """A trainer built by hand."""
    return rltrain.make_trainer([*typed_words(*SMALL, *words).values()], run_dir=folder)


def played(run: Path, opponent: object = None, n: int = 2) -> dict[str, float]:
    """The metrics of an evaluation."""
    overrides = [] if opponent is None else [f"test.opponent={opponent}"]
    return rltrain.evaluate(run, n, overrides=overrides).metrics


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where the run of a test is."""
    return tmp_path / "run"


@pytest.mark.slow
def test_a_run_keeps_its_opponents_and_goes_on_without_the_originals(opponent, tmp_path, run):
    original = shutil.copytree(opponent, tmp_path / "first")
    words = (f"env.opponents={{builtin: 1, {original}: 1}}", f"test.opponent={original}")
    result = trained(run, *words, "log.interval=1000")
    kept = run / "opponents" / "first"
    assert sorted(path.name for path in kept.iterdir()) == [
        *("config.json", "manifest.json", "model.json", "model.safetensors", "spec.json")
    ]
    assert {"test/win_rate/first", "test/draw_rate"} <= set(result.metrics)
    facts = get_json(run / "run.json")
    assert {"builtin", "first"} == set(facts["opponents"])
    shutil.rmtree(original)
    again = rltrain.resume(run, 210, progress=False)
    assert "test/win_rate/first" in again.metrics
    moved = shutil.move(run, tmp_path / "moved")
    for env_steps in (210, 220):
        rltrain.resume(moved, env_steps, progress=False)
    found = played(moved)
    assert found["test/win_rate/first"] == found["test/win_rate"]
    record = get_json(Path(moved) / "evaluation.json")
    assert record["opponent"] == "first"
    assert {episode["opponent"] for episode in record["episodes"]} == {"first"}


def test_the_configuration_of_a_resumed_run_names_the_opponents_that_were_typed(
    opponent, tmp_path, run
):
    """Defect: it named the copies, and a report took the run for one of another configuration."""
    words = (f"env.opponents={{builtin: 1, {opponent}: 1}}", f"test.opponent={opponent}")
    trained(run, *words, "total_env_steps=60")
    found = [get_json(run / "config.json")]
    for env_steps, name in ((70, "moved"), (80, "again")):
        at = Path(shutil.move(tmp_path / ("run" if name == "moved" else "moved"), tmp_path / name))
        rltrain.resume(at, env_steps, progress=False)
        found.append(get_json(at / "config.json"))
    assert found[0]["env"]["opponents"] == {"builtin": 1, str(opponent): 1}
    for part in ("env", "test"):
        assert found[0][part] == found[1][part] == found[2][part]


def test_a_copy_that_was_changed_or_is_not_there_is_not_played_against(opponent, run):
    trained(run, f"env.opponent={opponent}", "total_env_steps=60")
    model = run / "opponents" / "vdn-3m" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")
    with pytest.raises(CheckpointError, match="is damaged: its checksum"):
        rltrain.resume(run, 210, progress=False)
    shutil.rmtree(run / "opponents")
    with pytest.raises(UsageError, match=r"sets env\.opponent, which can reach outside"):
        rltrain.resume(run, 210, progress=False)


SELF = ("env.opponents={self:3,builtin:1}", "self_play.interval=80", "self_play.pool_size=2")


@pytest.fixture(scope="module")
def self_played(tmp_path_factory) -> Path:
    """A run of self-play, made once."""
    return trained(tmp_path_factory.mktemp("self") / "run", *SELF).run_dir


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("promise", "sampling"),
    [
        (resume, "prioritized"),
        pytest.param(resume, "latest", marks=pytest.mark.slow),
        (workers, "uniform"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_self_play_is_the_same_again(promise, sampling, tmp_path):
    state = State((*SMALL, *SELF, f"self_play.sampling={sampling}", "total_env_steps=300"))
    whole = whole_run_of(state, tmp_path)
    pool = whole.trainer.rollout.opponents.self_play
    assert len(pool.pool) == 2
    assert pool.pool[0] > 80
    promise(state, whole, tmp_path / "again")
    whole.trainer.close()


def test_the_pool_of_self_play_lies_in_the_run_folder_and_can_be_played(self_played, run):
    shutil.copytree(self_played, run)
    pool = sorted(int(path.name) for path in (run / "pool").iterdir())
    assert len(pool) == 2
    assert 80 < pool[0] < pool[1] <= 210
    shutil.copytree(run / "pool" / str(pool[1]), run / "pool" / "9999")
    rltrain.resume(run, 210, progress=False)  # 9999 is of a lost end
    assert not (run / "pool" / "9999").exists()
    with pytest.raises(UsageError, match=r"A resumed run keeps its self_play\.interval"):
        rltrain.resume(run, overrides={"self_play.interval": 7}, progress=False)
    snapshot = run / "pool" / str(pool[1])
    assert "test/draw_rate" in played(snapshot, run)
    shutil.rmtree(run / "pool")
    with pytest.raises(UsageError, match="there is no snapshot of the agents in"):
        played(run, "self")


def test_a_broken_newest_snapshot_is_named_with_another_to_play(self_played, run):
    """Defect: nothing told that the one before could be played."""
    shutil.copytree(self_played, run)
    first, last = sorted((run / "pool").iterdir(), key=lambda path: int(path.name))
    (last / "model.safetensors").write_bytes(b"")
    said = f"{last}/model.* is damaged.* Type test.opponent={first} instead"
    with pytest.raises(CheckpointError, match=said):
        played(run, "self")
    shutil.rmtree(first)
    with pytest.raises(CheckpointError, match=r"Type test\.opponent=builtin instead"):
        played(run, "self")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", ["env.opponent", "test.opponent"])
@pytest.mark.parametrize(
    ("file", "name", "value", "message"),
    [
        ("spec.json", "n_actions", -1, "has a damaged spec.json: "),
        ("spec.json", "obs_shape", "x", "has a damaged spec.json: "),
        ("spec.json", "none", 1, "has a damaged spec.json: unknown field none"),
        (
            "config.json",
            "maps",
            ["3m", "8m"],
            r"was trained on smac 3m,8m, and this run is on smac 3m",
        ),
        ("config.json", "map_name", "3m\n\x1b[31m" + 2000 * "x", r"was trained on smac 3m \\x1b"),
    ],
)
def test_what_an_opponents_files_hold_is_refused_in_one_paragraph(
    opponent, tmp_path, file, name, value, message, key, run
):
    """Defect: a traceback, and a stranger's text at any length."""
    folder = shutil.copytree(opponent, tmp_path / "other")
    for path in folder.glob(f"checkpoints/*/{file}"):
        tree = get_json(path)
        (tree["env"] if file == "config.json" else tree)[name] = value
        path.write_text(json.dumps(tree))
        seal(path.parent, stored_manifest(path.parent)["kind"])
    for play in (
        lambda: made(run, f"{key}={folder}"),
        lambda: played(opponent, folder, 1),
    ):
        with pytest.raises((UsageError, CheckpointError), match=message) as refused:
            play()
        assert len(str(refused.value).replace(str(folder), "")) < 800
        assert str(refused.value).isprintable()


def test_an_opponent_learns_nothing_and_explores_nothing(opponent, run):
    trainer = made(run, f"env.opponent={opponent}")
    policy = trainer.rollout.opponents.policies["vdn-3m"]
    before = {name: each.clone() for name, each in policy.agents.state_dict().items()}
    trainer.train()
    trainer.close()
    assert all((before[name] == each).all() for name, each in policy.agents.state_dict().items())


def test_two_opponents_of_one_name_are_refused(opponent, run):
    other = shutil.copytree(opponent, run.parent / "other" / "vdn-3m")
    with pytest.raises(UsageError, match="have the same name") as refused:
        made(run, f"env.opponents={{{opponent}: 1, {other}: 1}}")
    assert "\n" not in str(refused.value)


def test_a_team_with_other_units_is_no_match_for_a_checkpoint(tmp_path, run):
    first = made(tmp_path / "first", "env.map_name=3s_vs_3z")
    first.train()
    first.close()
    with pytest.raises(UsageError, match="the other side has other units"):
        made(run, "env.map_name=3s_vs_3z", f"env.opponent={tmp_path / 'first'}")


@pytest.mark.parametrize("mode", ["evaluate", "watch"])
def test_only_training_has_the_opponents_of_training(mode, command, opponent):
    with pytest.raises(UsageError, match=r"Type test\.opponent=NAME instead"):
        command(f"mode={mode}", f"checkpoint={opponent}", "env.opponent=closest")


SHORT = "x" * 80
SAME = {
    "folders": ("a/run", "b/run"),
    "characters": ("a/r+n", "b/r-n"),
    "length": (f"a/1{SHORT}", f"b/2{SHORT}"),
    "a checkpoint": ("a/run/checkpoints/latest", "b/run-latest"),
    "a scripted policy": ("closest", "b/closest"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("key", ["env.opponent={}", "env.opponents={{builtin: 1, {}: 1}}"])
def test_opponents_of_training_and_tests_have_names_of_their_own(
    key, name, opponent, own_folder, run
):
    """Defect: after a resume both keys had the weights of the first."""
    for place in SAME[name]:
        if "/" in place:
            shutil.copytree(opponent, own_folder / place.partition("/checkpoints")[0])
    for one, other in (SAME[name], SAME[name][::-1]):
        words = (key.format(one), f"test.opponent={other}")
        with pytest.raises(UsageError, match="have the same name in metrics and in") as refused:
            made(run, *words)
        assert "\n" not in str(refused.value)
        with pytest.raises(UsageError, match="have the same name"):
            trained(Path("run"), *words)
    assert not (own_folder / "run").exists()


def test_one_opponent_may_be_typed_in_two_ways(opponent, own_folder, run):
    shutil.copytree(opponent, own_folder / "a")
    made(own_folder / "run", "env.opponent=a/", f"test.opponent={own_folder}/a").close()


@pytest.mark.slow
def test_other_weights_under_the_name_of_a_kept_opponent_are_refused(opponent, tmp_path, run):
    first = shutil.copytree(opponent, tmp_path / "first" / "team")
    words = (f"env.opponent={first}", f"test.opponent={first}")
    trained(run, *words)
    before = (run / "run.json").read_bytes()
    shutil.rmtree(first)
    other = Path(trained(first, "seed=9").run_dir)
    kept = run / "opponents" / "team"
    for change in ({"test.opponent": str(other)}, {"test.opponent": str(other), "test.epsilon": 0}):
        with pytest.raises(UsageError, match=r"have the same name|has different weights than"):
            rltrain.resume(run, 210, overrides=change, progress=False)
    with pytest.raises(UsageError, match=f"has different weights than {kept}"):
        made(run, *words)
    assert (run / "run.json").read_bytes() == before
    rltrain.resume(run, 210, progress=False)
