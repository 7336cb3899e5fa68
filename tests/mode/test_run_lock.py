"""One process at a time trains in a run folder; a killed one holds nothing."""

import subprocess
import sys

import pytest

from benchmarks.faults.runs import digests
from rltrain.callback import Callback
from rltrain.errors import UsageError
from rltrain.mode.run_folder import run_lock
from rltrain.mode.train import resume


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
    holds = f"""
from pathlib import Path
from rltrain.mode.run_folder import run_lock
with run_lock(Path({str(trained)!r})):
    print("held", flush=True)
    input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match="is going on already"):
        command(f"resume={trained}")
    process.kill()
    process.communicate()
    with run_lock(trained):
        pass
    assert command(f"resume={trained}", "total_env_steps=180") == 0
