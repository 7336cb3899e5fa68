"""One process at a time trains in a run folder; a killed one holds nothing."""

import multiprocessing
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.faults.runs import digests
from rltrain.callback import Callback
from rltrain.errors import UsageError
from rltrain.mode import import_checkpoint, train
from rltrain.mode.run_folder import new_run, run_lock
from rltrain.mode.train import resume
from tests.conftest import SMALL
from tests.mode.test_import_checkpoint import OVERRIDES, QMixer, RNNAgent, pymarl_folder


class Resumes(Callback):
    """Resumes its own run while it is training."""

    def on_train_end(self, trainer, value=None):
        before = digests(trainer.run_dir)
        with pytest.raises(UsageError, match=r"is going on already \(process \d+\)\. Wait until"):
            resume(trainer.run_dir, ["total_env_steps=1000", "trust=[tests]"])
        assert digests(trainer.run_dir) == before


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_is_going_on_is_not_resumed_again(command, small, resumed):
    callbacks = f"callbacks=[{{_target_: {__name__}.Resumes}}]"
    assert command(*small, "total_env_steps=50", callbacks, "hydra.run.dir=run") == 0
    if resumed:
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
    with pytest.raises(UsageError, match="is going on already"):
        command(f"resume={trained}")
    process.kill()
    process.join()
    with run_lock(trained):
        pass
    assert command(f"resume={trained}", "total_env_steps=180") == 0


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
        with pytest.raises(UsageError, match="holds a run" if ended else "is going on already"):
            command(*imports, *SMALL, *OVERRIDES, "hydra.run.dir=run")
    assert digests(Path("run")) == before
