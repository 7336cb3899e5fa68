"""Rows of metrics of a run that is interrupted and resumed."""

import os
import signal

import pytest

from benchmarks.faults.runs import result_of
from rltrain.callback import Callback
from tests.marks import slow_except


class Stopped(Callback):
    """SIGTERM once the run has made ``at`` env steps."""

    def __init__(self, *, at: int) -> None:
        self.at = at

    def on_iteration(self, trainer, value=None):
        if trainer.clock.env_steps >= self.at:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("at", slow_except([150], [60, 150]))  # between rows, at the end
def test_an_interrupted_run_has_the_rows_of_the_uninterrupted_one(command, small, own_folder, at):
    words = [*small, "log.interval=40"]
    assert command(*words, "hydra.run.dir=whole") == 0
    stopped = f"callbacks=[{{_target_: {__name__}.Stopped, at: {at}}}]"
    assert command(*words, stopped, "hydra.run.dir=stopped") == 143
    assert command("resume=stopped", "callbacks=[]", "trust=[tests]") == 0
    assert result_of(own_folder / "stopped") == result_of(own_folder / "whole")
