"""Which run and which checkpoint a typed path refers to; the trained agents that come with rltrain:
they play well, and nothing is written beside them.

Where a configuration has new keys, ``python -m benchmarks.demos --configs`` writes theirs again.
"""

import os
import shutil
import subprocess

import numpy as np
import pytest
import torch

import rltrain
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError, RltrainError, UsageError
from rltrain.main import run
from rltrain.mode.find_run import DEMOS, find_checkpoint, find_run, runs_below

PARTS = {"model": {"w": torch.zeros(2)}}


def make_run(folder, written=0, steps=(100, 200), best=100):
    """A run folder, its run.json written at second ``written``, with checkpoints."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "run.json").write_text("{}")
    os.utime(folder / "run.json", (written, written))
    for step in steps:
        checkpoint.write(folder / "checkpoints", step, PARTS)
    if steps:
        checkpoint.name_pointer(folder / "checkpoints", "best", best)
        checkpoint.name_pointer(folder / "checkpoints", "latest", steps[-1])
    return folder


@pytest.fixture
def outputs(own_folder):
    """Two finished runs and the newest one, which has no checkpoint yet."""
    make_run(own_folder / "outputs/dqn-cartpole/old", 1)
    make_run(own_folder / "outputs/dqn-cartpole/new", 2)
    make_run(own_folder / "outputs/multirun/sweep/0_seed-1", 3, steps=())
    (own_folder / "outputs/latest").symlink_to("dqn-cartpole/old")
    return own_folder / "outputs"


@pytest.mark.parametrize("words", ["resume=", "mode=evaluate checkpoint=", "mode=report runs="])
@pytest.mark.parametrize("name", ["runs", "7"])
def test_folders_of_any_depth_are_looked_through(own_folder, words, name):
    """Defect: a RecursionError with Python 3.11."""
    subprocess.run(["mkdir", "-p", name + "/d" * 1_200], check=True)
    try:
        with pytest.raises(RltrainError):
            run(f"{words}{name}".split())
    finally:
        subprocess.run(["rm", "-r", name], check=True)


def test_runs_are_found_once_newest_first_and_not_through_links(outputs):
    assert [run.name for run in runs_below(outputs)] == ["0_seed-1", "new", "old"]


def test_folders_of_any_depth_hold_runs(own_folder):
    for written, name in enumerate(("a/b/c/d", "run", "algo-env/older")):
        make_run(own_folder / name, written % 2, steps=())
    assert find_run(own_folder) == own_folder / "run"


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("latest", "0_seed-1"),
        ("outputs", "0_seed-1"),
        ("outputs/dqn-cartpole", "new"),
        ("outputs/dqn-cartpole/old", "old"),
        ("outputs/dqn-cartpole/old/checkpoints", "old"),
        ("outputs/dqn-cartpole/old/checkpoints/200", "old"),
        ("outputs/dqn-cartpole/old/checkpoints/latest", "old"),
        ("outputs/latest", "old"),
    ],
)
def test_a_path_means_a_run(outputs, typed, name):
    assert find_run(typed).name == name
    assert not find_run(typed).is_symlink()


@pytest.mark.parametrize("name", ["100", "best"])
def test_a_run_does_not_continue_from_an_earlier_checkpoint(outputs, name):
    run = outputs / "dqn-cartpole/old"
    with pytest.raises(UsageError, match="newest checkpoint, which is 200") as caught:
        find_run(run / "checkpoints" / name)
    assert f"resume={run} " in str(caught.value)
    assert f"checkpoint={run}/checkpoints/100 algo=… env=…" in str(caught.value)


def test_no_run_continues_from_exported_weights(own_folder):
    checkpoint.write(own_folder / "exported", 100, PARTS, "weights")
    (own_folder / "exported/100/config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"Type checkpoint=.*exported/100 algo=… env=…"):
        find_run("exported/100")


def test_a_run_folder_may_have_any_name(own_folder):
    for name in ("7", "checkpoints/mine"):
        assert find_run(make_run(own_folder / name, steps=())) == own_folder / name


@pytest.mark.parametrize("name", ["2026", "2026/7", "best", "checkpoints", "a/3"])
def test_a_folder_of_runs_may_have_any_name(own_folder, name):
    """Defect: one with the name of a number was taken for a damaged checkpoint."""
    run = make_run(own_folder / name / "x/run")
    for typed in (name, name.partition("/")[0]):
        assert find_run(typed) == run
        assert find_checkpoint(typed).folder == run / "checkpoints/200"


@pytest.mark.parametrize("typed", ["latest", "outputs", "outputs/dqn-cartpole"])
def test_of_several_runs_the_newest_with_a_checkpoint_is_taken_and_named(outputs, typed):
    found = find_checkpoint(typed)
    assert found.folder == outputs / "dqn-cartpole/new/checkpoints/200"
    assert "The newest run below" in found.remarks[0]
    assert "dqn-cartpole/new" in found.remarks[0]


@pytest.mark.parametrize(
    ("load_step", "step", "remark"),
    [
        (None, 200, None),
        ("best", 100, None),
        (200, 200, None),
        (130, 100, "no checkpoint of env step 130: 100 is the nearest"),
    ],
)
def test_a_step_chooses_among_the_checkpoints_of_a_run(outputs, load_step, step, remark):
    found = find_checkpoint("outputs/latest", load_step)
    assert found.folder == outputs / f"dqn-cartpole/old/checkpoints/{step}"
    assert remark in found.remarks[0] if remark else not found.remarks


@pytest.mark.parametrize("name", ["100", "best"])
def test_a_step_beside_one_checkpoint_is_refused(outputs, name):
    with pytest.raises(UsageError, match="load_step=200 chooses a checkpoint of a run"):
        find_checkpoint(f"outputs/latest/checkpoints/{name}", 200)


NO_RUN = "Expected latest, a run folder"
IMPORTED = "rltrain mode=import checkpoint={} algo="


@pytest.mark.parametrize(
    ("find", "typed", "said"),
    [
        (lambda typed: find_checkpoint(typed, "best"), "run", "names no best checkpoint"),
        *((find_run, typed, NO_RUN) for typed in ("latest", "nowhere", "empty")),
        *((find_checkpoint, typed, NO_RUN) for typed in ("latest", "nowhere", "empty")),
        *((find_checkpoint, typed, IMPORTED) for typed in ("models", "models/1000")),
        (find_checkpoint, "new", "has written a checkpoint yet"),
    ],
)
def test_where_there_is_no_checkpoint_what_was_expected_is_said(own_folder, find, typed, said):
    (make_run(own_folder / "run") / "checkpoints/best").unlink()
    make_run(own_folder / "new/run", steps=())
    for name in ("empty", "models/1000"):
        (own_folder / name).mkdir(parents=True)
    (own_folder / "models/1000/agent.th").touch()
    with pytest.raises(CheckpointError, match=said.format(typed)):
        find(typed)


NAMES = sorted(path.parent.name for path in DEMOS.glob("*/run.json"))
FILES = {path: path.stat().st_mtime_ns for path in DEMOS.rglob("*")}


def test_they_are_small():
    assert set(NAMES) == {"cartpole", "3m", "2s3z", "MMM"}
    assert sum(path.stat().st_size for path in FILES if path.is_file()) < 1_000_000


@pytest.mark.parametrize("name", NAMES)
def test_they_play_well(name, command, tmp_path):
    metrics = rltrain.evaluate(f"demo/{name}", episodes=20).metrics
    assert metrics.get("test/win_rate", metrics["test/return_mean"] / 500) >= 0.6
    assert list(tmp_path.glob("outputs/evaluate/*/evaluation.json"))
    assert {path: path.stat().st_mtime_ns for path in DEMOS.rglob("*")} == FILES


def test_a_folder_of_that_name_wins(tmp_path):
    assert find_checkpoint("demo/3M").folder.is_relative_to(DEMOS / "3m")
    shutil.copytree(DEMOS / "cartpole", tmp_path / "demo/3m")
    assert find_checkpoint("demo/3m").folder.is_relative_to(tmp_path)


def test_a_new_run_starts_from_one(small, tmp_path):
    run = ["algo=dqn", "env=cartpole", "checkpoint=demo/cartpole", "total_env_steps=40"]
    made = rltrain.make_trainer([*run, "hardware.threads=1", "logger=[]"], run_dir=tmp_path / "r")
    states = made.learner.state_dict()
    assert states["online"].keys() == states["target"].keys()
    for name, weight in states["online"].items():
        assert np.array_equal(weight, states["target"][name]), name
    made.close()
