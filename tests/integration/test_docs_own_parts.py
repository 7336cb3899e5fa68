"""The classes of docs/own_parts.md, put into a file as the page says, train."""

import re
import shlex
import sys
from pathlib import Path

import pytest

import rltrain
from rltrain.config.node import FACTS
from tests.marks import slow_except
from tests.pages import read_page

PAGE = read_page(Path(__file__).parents[2] / "docs" / "own_parts.md")
COMMANDS = [
    shlex.split(line)[1:]
    for line in PAGE.splitlines()
    if line.startswith("rltrain ") and "resume" not in line
]


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "mine.py").write_text("\n\n".join(blocks), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    "overrides", slow_except(COMMANDS[:2], COMMANDS), ids=lambda overrides: overrides[-1]
)
def test_a_command_of_the_page_trains(single, tmp_path, overrides):
    given = {word.partition("=")[0] for word in overrides}
    dropped = ("env=", "buffer.", "algo.exploration.")
    kept = [w for w in single if not w.startswith(dropped) and w.partition("=")[0] not in given]
    single = ["algo.learning_starts=10"] if "algo=dqn" in overrides else []
    trainer = rltrain.make_trainer([*kept, *single, *overrides], run_dir=tmp_path / "run")
    trainer.run(100)
    trainer.test(episodes=2)
    trainer.close()
    assert trainer.clock.updates > 0
    assert rltrain.load_policy(trainer.export(tmp_path / "policy"), trust=["mine"]).step >= 100


def test_the_page_names_what_constructors_may_ask_for():
    rows = dict(re.findall(r"^\| `([\w.*]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    facts = {part: tuple(re.findall(r"`(\w+)`", names)) for part, names in rows.items()}
    assert facts == {p: f for p, f in FACTS.items() if p not in ("test.env", "algo")}
