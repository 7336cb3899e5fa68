"""One command at a time in the folder of a sweep."""

import platform
import subprocess
import sys

import pytest

from rltrain.errors import UsageError
from rltrain.mode.sweep.run import locked


def test_a_second_command_in_the_folder_is_refused(own_folder):
    with locked(own_folder / "s"), pytest.raises(UsageError, match="is running already"):
        locked(own_folder / "s").__enter__()
    with locked(own_folder / "s"):
        pass


def test_after_a_killed_command_the_end_of_its_jobs_is_awaited(own_folder, capsys):
    waits = "import sys; sys.stdin.read()"
    with locked(own_folder / "s") as lock:
        job = subprocess.Popen(
            [sys.executable, "-c", waits], stdin=subprocess.PIPE, pass_fds=[lock]
        )
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (own_folder / "s/.lock").write_text(f"{platform.node()} {ended.pid}")
    follower = f"""
from pathlib import Path
from rltrain.mode.sweep.run import locked
with locked(Path({str(own_folder / "s")!r})):
    print("mine", flush=True)
"""
    second = subprocess.Popen([sys.executable, "-uc", follower], stdout=subprocess.PIPE, text=True)
    assert "Waiting until the runs" in second.stdout.readline()
    job.communicate()
    assert second.communicate()[0] == "mine\n"
