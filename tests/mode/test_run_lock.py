"""One process at a time trains in a run folder; a killed one holds nothing."""

import multiprocessing
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

import rltrain
from benchmarks.faults.runs import digests
from rltrain.callback import Callback
from rltrain.common import checkpoint
from rltrain.errors import UsageError
from rltrain.mode import import_checkpoint, train
from rltrain.mode.run_folder import new_run, run_lock
from rltrain.stage import Stage
from tests.conftest import SMALL
from tests.marks import slow_except
from tests.mode.test_import_checkpoint import OVERRIDES, QMixer, RNNAgent, pymarl_folder


class Resumes(Callback):
    """Resumes its own run while it is training."""

    def on_train_end(self, trainer, value=None):
        before = digests(trainer.run_dir)
        with pytest.raises(UsageError, match=r"is already running \(process \d+\)\. Wait until"):
            rltrain.resume(trainer.run_dir, 1000, trust=["tests"])
        assert digests(trainer.run_dir) == before


def test_a_run_that_is_going_on_is_not_resumed_again(command, small):
    callbacks = f"callbacks=[{{_target_: {__name__}.Resumes}}]"
    assert command(*small, "total_env_steps=50", callbacks, "hydra.run.dir=run") == 0
    assert command("resume=run", "total_env_steps=100", "trust=[tests]") == 0


def test_a_killed_process_holds_nothing(trained, command):
    def hold():
        with run_lock(trained):
            held.set()
            signal.pause()

    context = multiprocessing.get_context("fork")
    held, process = context.Event(), context.Process(target=hold)
    process.start()
    assert held.wait(30)
    with pytest.raises(UsageError, match="is already running"):
        command(f"resume={trained}")
    process.kill()
    process.join()
    with run_lock(trained):
        pass
    assert command(f"resume={trained}", "total_env_steps=180") == 0


STEPS = ("start", "test", "save", "train")


@pytest.mark.parametrize("step", STEPS)
def test_a_trainer_driven_by_hand_holds_its_folder_until_it_is_closed(small, own_folder, step):
    """Defect: two processes wrote one folder."""
    trainer = rltrain.make_trainer(small, run_dir="run")
    getattr(trainer, step)()
    before = digests(Path("run"))
    with pytest.raises(UsageError, match=r"is already running .* or close its trainer\."):
        run_lock(Path("run")).__enter__()
    trainer.close()
    with run_lock(Path("run")):
        pass
    assert digests(Path("run")) == before


@pytest.mark.parametrize("step", slow_except(("save",), STEPS))
def test_a_trainer_does_not_write_where_another_process_trains(small, own_folder, step):
    trainer = rltrain.make_trainer(small, run_dir="run")
    with run_lock(Path("run")), pytest.raises(UsageError, match="is already running"):
        getattr(trainer, step)()
    assert not Path("run/run.json").exists()
    assert not Path("run/checkpoints").exists()


def test_a_restored_trainer_changes_nothing_where_another_process_trains(trained, single):
    """Defects: it deleted checkpoints and rows before it knew that the folder was held."""
    (trained / "checkpoints/latest").write_text("0")  # as after a kill
    with (trained / "metrics.jsonl").open("a") as rows:
        rows.write('{"env_steps": 999}\n')
    before = digests(trained)
    trainer = rltrain.make_trainer(single, run_dir=trained)
    with run_lock(trained):
        trainer.restore(trained)
        with pytest.raises(UsageError, match="is already running"):
            trainer.train()
    assert digests(trained) == before
    trainer.train()
    assert checkpoint.pointed(trained / "checkpoints", "latest") == trainer.clock.env_steps
    assert '"env_steps": 999}' not in (trained / "metrics.jsonl").read_text()


@pytest.mark.slow
def test_a_trainer_that_nothing_refers_to_holds_nothing(small, own_folder):
    for _ in range(2):
        trainer = rltrain.make_trainer(small, run_dir="run")
        if trainer.stage is Stage.OCCUPIED:
            trainer.restore("run")
        trainer.cycle = trainer
        trainer.save()


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("mode", [train, import_checkpoint])
def test_a_new_run_is_refused_where_another_began_while_it_was_built(
    command, own_folder, monkeypatch, mode, ended
):
    pymarl_folder(own_folder / "models/4000", RNNAgent(), QMixer())
    imports = [] if mode is train else ["mode=import", "checkpoint=models"]
    build, before = mode.built, {}
    with ExitStack() as other, monkeypatch.context() as patch:

        def built(*arguments):
            trainer = build(*arguments)
            other.enter_context(new_run(Path("run"), {"config.yaml": "seed: 1"}))
            Path("run/run.json").write_text('{"status": "running", "process": 1}')
            Path("run/config.json").write_text("{}")
            if ended:
                other.close()
            before.update(digests(Path("run")))
            return trainer

        patch.setattr(mode, "built", built)
        with pytest.raises(UsageError, match="holds a run" if ended else "is already running"):
            command(*imports, *SMALL, *OVERRIDES, "hydra.run.dir=run")
    assert digests(Path("run")) == before
