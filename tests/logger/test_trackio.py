"""Trackio: one run of a local database, started in the background."""

import importlib.machinery
import sys
from types import SimpleNamespace

import pytest

from rltrain.logger.trackio import Trackio
from rltrain.logger.wandb import Wandb
from rltrain.types import Clock


@pytest.fixture
def fake(monkeypatch):
    """In place of the package."""
    module = SimpleNamespace(__spec__=importlib.machinery.ModuleSpec("trackio", None))
    module.print = print
    run = SimpleNamespace(rows=[], finish=lambda: module.print("Run finished"))
    run.log = lambda row, step: run.rows.append((step, row))
    module.init = lambda **options: vars(run).update(options=options) or run
    monkeypatch.setitem(sys.modules, "trackio", module)
    return run


def test_rows_are_logged_over_env_steps_without_a_word(fake, tmp_path, capsys):
    folder = tmp_path / "qmix-smac/run"
    logger = Trackio(run_dir=folder, config={"seed": 1}, project="p", group=None, space_id="me/s")
    logger.write(Clock(10, 2, 1), 0.5, {"test/return_mean": 1.5, "learn/loss": float("nan")})
    logger.summarize({})
    logger.close()
    ((step, row),) = fake.rows
    assert step == 10
    counts = {"env_steps": 10, "episodes": 2, "updates": 1, "seconds": 0.5}
    assert row == {"test/return_mean": 1.5, **counts}
    assert fake.options["name"].startswith("qmix-smac-run-")
    assert (fake.options["group"], fake.options["resume"]) == ("qmix-smac", "allow")
    assert fake.options["space_id"] == "me/s"
    assert capsys.readouterr().out == ""


def test_a_video_is_logged_as_one(fake, tmp_path):
    sys.modules["trackio"].Video = lambda path: ("video", path.name)
    logger = Trackio(run_dir=tmp_path / "a/b", config={}, project="p", group=None)
    logger.video(Clock(40), tmp_path / "a.gif")
    logger.close()
    assert fake.rows == [(40, {"test/video": ("video", "a.gif")})]


@pytest.mark.parametrize("folder", ["study", "study/trials"])
def test_runs_of_a_sweep_and_trials_of_a_search_are_a_group(folder, fake, tmp_path):
    """Defect: the trials of all searches were one group, ``trials``."""
    for name in ("0000", "0001"):
        given = {"run_dir": tmp_path / folder / name, "config": {}, "project": "p", "group": None}
        for logger in (Trackio(**given), Wandb(**given, mode="offline", tags=None)):
            assert logger.options["group"] == "study"
            assert logger.own_id.startswith(f"study-{name}-")
