"""Terminals of every kind: a run continues, and its lines can be read."""

import json
import os
import pty
import subprocess
import sys
import termios
import threading

import pytest

PLAIN = {"TERM": "dumb", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
KINDS = {
    "no terminal": {},
    "dumb": {"TERM": "dumb"},
    "20 columns": {"COLUMNS": "20"},
    "no colors": {"NO_COLOR": "1"},
    "not UTF-8": PLAIN,
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "Latin-1": {"PYTHONIOENCODING": "latin-1"},
}
"""Environment variables by the kind of terminal."""


def words(small, folder="run"):
    kept = [word for word in small if word != "logger.console=false"]
    return [sys.executable, "-m", "rltrain", *kept, "total_env_steps=60", f"hydra.run.dir={folder}"]


def finished(own_folder):
    return json.loads((own_folder / "run/run.json").read_text())["status"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_into_a_pipe_is_readable(small, own_folder, kind):
    done = subprocess.run(words(small), env=os.environ | KINDS[kind], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert finished(own_folder)
    said = done.stdout.decode("latin-1")
    assert "\x1b" not in said
    assert "return" in said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["20 columns", "dumb", "not UTF-8"])
def test_a_run_in_a_terminal_goes_on(small, own_folder, kind):
    ours, theirs = pty.openpty()
    columns = 20 if kind == "20 columns" else 80
    termios.tcsetwinsize(theirs, (24, columns))
    shown = []

    def read():
        while True:
            try:
                shown.append(os.read(ours, 4096))
            except OSError:  # its other end is closed
                return

    reader = threading.Thread(target=read)
    reader.start()
    environment = {"TERM": "xterm"} | ({} if kind == "20 columns" else KINDS[kind])
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen(words(small), env=os.environ | environment, **streams)
    os.close(theirs)
    assert process.wait() == 0, b"".join(shown)
    reader.join()
    os.close(ours)
    assert finished(own_folder)
    assert b"Traceback" not in b"".join(shown)


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_run_without_a_standard_stream_goes_on(small, own_folder, stream):
    closed = ["stdin", "stdout", "stderr"].index(stream)
    command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *words(small)]
    done = subprocess.run(command, capture_output=stream == "stdin")
    assert done.returncode == 0, done.stderr
    assert finished(own_folder)


@pytest.mark.slow
def test_a_help_whose_reader_has_gone_is_quiet():
    line = f"{sys.executable} -m rltrain --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode in (0, 141)
    assert done.stderr == ""
