"""Signals that end a run: what is said at once, what is kept, the exit code."""

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from rltrain.callback import Callback
from rltrain.common import checkpoint
from rltrain.errors import SIGNAL_CODES
from rltrain.logger.train_log import NOTICE
from rltrain.mode.signals import Interrupts, handling
from tests.conftest import SMALL
from tests.helpers import nothing_written, record_of

pytestmark = pytest.mark.usefixtures("no_nohup")


class FakeTrainer(SimpleNamespace):
    def stop(self, why, *, interrupted):
        self.why, self.interrupted = why, interrupted


def raised(number: int, run_dir, caplog) -> tuple[FakeTrainer, str]:
    """A trainer after a signal, and what was said."""
    trainer = FakeTrainer(run_dir=run_dir)
    interrupts = Interrupts([trainer])
    with handling(interrupts.handle), caplog.at_level(NOTICE, logger="rltrain"):
        os.kill(os.getpid(), number)
        for thread in threading.enumerate():
            if thread.name == "signal":
                thread.join()
    return trainer, caplog.text


def test_the_first_signal_says_at_once_what_happens_and_what_a_second_does(tmp_path, caplog):
    for step, kind in ((100, "full"), (200, "weights")):
        checkpoint.write(tmp_path / "checkpoints", step, {"model": {}}, kind)
    trainer, said = raised(signal.SIGINT, tmp_path, caplog)
    assert (trainer.why, trainer.interrupted) == ("SIGINT", True)
    assert "Ctrl-C: stopping after this iteration and saving. Ctrl-C again: exit " in said
    assert "keeping the last checkpoint (env step 100)." in said

    _, said = raised(signal.SIGTERM, tmp_path / "none", caplog)
    assert "SIGTERM: stopping after this iteration and saving" in said
    assert "with no checkpoint, since there is none yet." in said


@pytest.mark.parametrize(
    ("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGUSR1", 85)]
)
def test_every_signal_has_its_exit_code(tmp_path, name, code):
    trainer = FakeTrainer(run_dir=tmp_path)
    interrupts = Interrupts([trainer])
    with handling(interrupts.handle):
        os.kill(os.getpid(), signal.Signals[name])
    assert (trainer.why, interrupts.exit_code) == (name, code)


def test_sighup_stays_ignored_under_nohup(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupts = Interrupts()
        with handling(interrupts.handle):
            os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.caught == []
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("name", "code"), SIGNAL_CODES.items())
@pytest.mark.parametrize(
    ("moment", "overrides"),
    [
        ("rltrain.mode.train.build_trainer", [*SMALL, "hydra.run.dir=run"]),
        ("rltrain.mode.dispatch.compose_single", ["env=two_step"]),
        ("rltrain.mode.dispatch.compose_single", ["mode=report"]),
        ("rltrain.mode.dispatch.compose_checked", ["-m", "env=two_step", "seed=1,2"]),
        ("rltrain.mode.sweep.run.sweeper_for", ["-m", "env=two_step", "seed=1,2"]),
        ("rltrain.mode.sweep.run.Local.list_jobs", ["-m", "env=two_step", "seed=1,2"]),
    ],
)
def test_a_signal_before_the_first_run_has_its_exit_code(
    monkeypatch, own_folder, exit_code, moment, overrides, name, code
):
    """Defect: SIGUSR1 killed the command, which no cluster requeues."""
    signalled = lambda *about, **more: os.kill(os.getpid(), signal.Signals[name])  # noqa: E731
    monkeypatch.setattr(moment, signalled)
    assert exit_code(*overrides) == code
    assert "-m" in overrides or nothing_written(own_folder)


LATE = """
import atexit, os, sys
kill = lambda kill=os.kill, pid=os.getpid(): kill(pid, 2)
class Last:
    def __del__(self, kill=kill):
        kill()
last = Last()  # deleted when Python no longer handles signals
atexit.register(kill)
sys.argv = ["rltrain", *sys.argv[1:]]
import rltrain.main
from rltrain.__main__ import command
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("before", "typed", "code"),
    [("", "--version", 0), ("", "lr=0", 2), ("rltrain.main.read = lambda _: kill()", "x=1", 130)],
)
def test_ctrl_c_while_the_command_ends_leaves_its_exit_code(own_folder, before, typed, code):
    """Defect: of a second one in that moment the exit code was -2, or there was a traceback."""
    words = [sys.executable, "-c", f"{LATE}{before}\ncommand()", typed]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_a_signal_inside_an_exec_has_its_exit_code(own_folder):
    """Defect: it was -2 where a dataclass was being defined; Python remembers that interrupt."""
    (own_folder / "entry.py").write_text(
        "import os, rltrain.main\nfrom rltrain.__main__ import command\n"
        "rltrain.main.read = lambda _: exec('os.kill(os.getpid(), 15)')\ncommand()\n"
    )
    path = os.pathsep.join([str(own_folder), *sys.path])
    words = [sys.executable, "-m", "entry"]
    assert subprocess.run(words, env={**os.environ, "PYTHONPATH": path}).returncode == 143


class Twice(Callback):
    """Ctrl-C after ``at`` env steps, and again while that is being saved."""

    def __init__(self, *, at: int) -> None:
        self.at = at

    def on_iteration(self, trainer, value=None):
        if trainer.clock.env_steps >= self.at:
            os.kill(os.getpid(), signal.SIGINT)

    def on_save(self, trainer, value):
        if trainer.interrupted:
            os.kill(os.getpid(), signal.SIGINT)
        return value


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        (150, "Kept: the last checkpoint (env step 114)."),
        (50, "Kept: only the weights of the best test (env step 0)."),
    ],
)
def test_a_signal_while_saving_says_what_is_kept(command, small, own_folder, capsys, at, kept):
    overrides = ["logger.console=true", f"callbacks=[{{_target_: {__name__}.Twice, at: {at}}}]"]
    assert command(*small, *overrides, "hydra.run.dir=run") == 130
    shown = capsys.readouterr().out

    assert kept in shown
    assert ("rltrain resume=run" in shown) == (at == 150)
    assert not list((own_folder / "run/checkpoints").glob(".tmp*"))


MOMENTS = (
    *("run_folder.run_lock", "run_folder.put_text", "train.refused_writes", "train.banner"),
    *("run_folder.link_latest", "run_folder.keep_opponents", "train.warn"),
    *("train.initialize", "run_folder.git_state", "run_folder.config_text"),
)
"""Functions that a run calls between its composition and its first step."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("how", ["before", "after", "ignored"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_before_the_first_step_is_recorded(
    command, small, own_folder, monkeypatch, moment, how, name, code
):
    """``ignored`` is where Python drops what a handler raises, as in a ``__del__``."""
    module, function = moment.split(".")
    called = getattr(sys.modules[f"rltrain.mode.{module}"], function)
    signals = [signal.Signals[name]]

    def signalled(*given, **named):
        result = called(*given, **named) if how == "after" else None
        try:
            while signals:
                os.kill(os.getpid(), signals.pop())
        except KeyboardInterrupt:
            if how != "ignored":
                raise
        return result if how == "after" else called(*given, **named)

    monkeypatch.setattr(f"rltrain.mode.{moment}", signalled)
    try:
        found = command(*small, "hydra.run.dir=run")
    except KeyboardInterrupt as stopped:
        (found,) = stopped.args
    assert found == code
    record = own_folder / "run/run.json"
    if record.exists():
        facts = record_of(record.parent)
        assert (facts["status"], facts["exit_code"]) == ("interrupted", code)
        assert facts.get("env_steps", 0) == 0
    else:
        assert not [path for path in own_folder.rglob("*") if path.is_file()]
