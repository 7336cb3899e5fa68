"""load_step=all: every checkpoint has the numbers that it has alone, in one file and one curve."""

import json

import pytest

import rltrain
from rltrain.errors import UsageError


@pytest.fixture
def run(small):
    overrides = [*small, "total_env_steps=120", "save.interval=40", "save.keep_last=9"]
    return rltrain.train(overrides).run_dir


def steps_of(run):
    return sorted(int(p.name) for p in (run / "checkpoints").iterdir() if p.is_dir())


READERS = {
    "evaluate": lambda run: rltrain.evaluate(run, episodes=1),
    "all": lambda run: rltrain.evaluate(run, episodes=1, load_step="all"),
    "load_policy": rltrain.load_policy,
}


@pytest.mark.parametrize("name", READERS)
def test_from_python_a_skipped_checkpoint_is_logged(trained, name, caplog):
    """Defect: an older one was taken and nothing said so."""
    newest = max(steps_of(trained))
    (trained / "checkpoints" / str(newest) / "model.json").write_text("{damaged")
    READERS[name](trained)
    assert [m.startswith(f"Skipped checkpoint {newest}: ") for m in caplog.messages].count(
        True
    ) == 1


@pytest.mark.slow
def test_every_checkpoint_is_evaluated_as_it_is_alone(command, run, capsys):
    steps = steps_of(run)
    assert len(steps) >= 3
    alone = rltrain.evaluate(run, episodes=5, seed=7, load_step=steps[0]).metrics
    (run / "checkpoints" / str(steps[1]) / "model.json").write_text("{damaged")
    overrides = ("load_step=all", "test.episodes=5", "seed=7")
    assert command("mode=evaluate", f"checkpoint={run}", *overrides) == 0
    record = json.loads((run / "evaluation.json").read_text())
    rows = record["checkpoints"]
    assert [row["env_steps"] for row in rows] == [steps[0], *steps[2:]]
    assert rows[0]["metrics"] == alone
    assert all(len(row["episodes"]) == 5 for row in rows)
    assert (run / "evaluation_curve.png").stat().st_size > 1000
    shown = capsys.readouterr().out
    assert f"Skipped checkpoint {steps[1]}" in shown
    assert all(f"{row['env_steps']:,}" in shown for row in rows)
    from_python = rltrain.evaluate(run, episodes=5, seed=7, load_step="all")
    assert {step: each.metrics for step, each in from_python.items()} == {
        row["env_steps"]: row["metrics"] for row in rows
    }
    assert {each.run_dir for each in from_python.values()} == {run}


@pytest.mark.slow
def test_one_checkpoint_is_not_all_and_elsewhere_one_is_needed(command, run, small):
    one = run / "checkpoints" / str(steps_of(run)[0])
    with pytest.raises(UsageError, match=r"every checkpoint of a run, and .* is one"):
        command("mode=evaluate", f"checkpoint={one}", "load_step=all")
    for overrides in (small, ["mode=export"]):
        with pytest.raises(UsageError, match="load_step=all"):
            command(*overrides, f"checkpoint={run}", "load_step=all")
    said = "load_step='all': expected the env step of a checkpoint, or 'best'"
    with pytest.raises(UsageError, match=said):
        rltrain.load_policy(run, load_step="all")
    with pytest.raises(UsageError, match="episodes of one checkpoint"):
        command("mode=evaluate", f"checkpoint={run}", "load_step=all", "dataset.write=data")
