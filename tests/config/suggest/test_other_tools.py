"""Whole command lines of other programs, typed behind rltrain: what they are answered with."""

import shlex
from functools import partial
from pathlib import Path

import pytest

from rltrain import main as entry
from rltrain.config.catalog import SHIPPED
from rltrain.config.command_line import STRANGE, read
from rltrain.config.compose import compose_checked, refusal
from rltrain.config.suggest.translate import translated
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
    assert len(answers()) > 150
    meant = {line: f"rltrain {typed}".strip() for line, typed, _ in lines}
    assert {line: str(done) for line, done in printed.items()} == meant


def test_what_cannot_be_kept_is_named(lines, printed):
    said = {line: [text.partition(" (")[0] for text in d.left_out] for line, d in printed.items()}
    assert said == {line: left_out for line, _, left_out in lines}


def test_every_printed_command_is_accepted_when_typed(printed):
    for command in sorted({str(done) for done in printed.values()}):
        line = read(shlex.split(command)[1:])
        assert not any(map(STRANGE.match, line.overrides))
        if line.asks is None:
            jobs = entry.list_jobs(line).values()
            for overrides in jobs:
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
