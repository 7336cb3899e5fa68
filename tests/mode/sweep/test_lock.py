"""One command at a time in the folder of a sweep."""

import platform
import subprocess
import sys

import pytest

from rltrain.errors import UsageError
from rltrain.mode.sweep import run
from rltrain.mode.sweep.run import locked


def test_a_second_command_in_the_folder_is_refused(own_folder):
    with locked(own_folder / "s"), pytest.raises(UsageError, match="is running already"):
        locked(own_folder / "s").__enter__()
    with locked(own_folder / "s"):
        pass


def test_after_a_killed_command_the_end_of_its_jobs_is_awaited(own_folder, monkeypatch):
    ends = "import sys; sys.stdin.read(); open('s/saved', 'w')"
    with locked(own_folder / "s") as lock:
        job = subprocess.Popen([sys.executable, "-c", ends], stdin=subprocess.PIPE, pass_fds=[lock])
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (own_folder / "s/.lock").write_text(f"{platform.node()} {ended.pid}")
    messages = []
    monkeypatch.setattr(run, "say", lambda text: (messages.append(text), job.stdin.close()))
    with locked(own_folder / "s") as lock:
        assert lock is not None
        assert (own_folder / "s/saved").exists()
    assert "Waiting until the runs" in messages[0]
    job.wait()
