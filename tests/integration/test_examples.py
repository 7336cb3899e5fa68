"""The complete examples reach what their comments say, and the notebook runs from top to bottom."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

import rltrain

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """Imports an example from another working directory, offline and with one thread."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setitem(os.environ, "WANDB_MODE", "disabled")

    def load(name):
        monkeypatch.delitem(sys.modules, name, raising=False)
        return __import__(name)

    return load


def test_the_team_environment_has_no_problems():
    corridor = runpy.run_path(str(EXAMPLES / "team.py"))["Corridor"]
    assert rltrain.check_env(corridor).problems == []


@pytest.mark.slow
def test_cartpole(example):
    assert example("cartpole").main() > 450


@pytest.mark.slow
def test_team(example):
    returns = example("team").main()
    assert returns["qmix"] > 0.7
    assert returns["vdn"] > 0.5


@pytest.mark.slow
def test_mixer(example):
    assert example("mixer").main() == {"vdn": 7, "weighted": 7, "qmix": 8}


@pytest.mark.slow
def test_notebook():
    cells = json.loads((EXAMPLES / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    assert len(cells) == 10
    names: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["total"] > 100
