"""Standard output and standard error that cannot be written."""

import ast
import errno
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rltrain
from rltrain.common.machine.streams import Lenient, lost_output, say, warnings_once

PACKAGE = Path(rltrain.__file__).parent
PRINTS = {"common/machine/streams.py", "mode/export/act.py"}
"""The only files that print, with the ``__main__`` files; the second is a script of an export."""
OUTLETS = ("print", "print_exc", "print_exception", "Console", "RichConsole", "tqdm")
CONSOLES = {"logger/screen.py"}
FAILURES = {
    "full disk": OSError(errno.ENOSPC, "No space left on device"),
    "vanished terminal": OSError(errno.EIO, "Input/output error"),
    "closed pipe": BrokenPipeError(errno.EPIPE, "Broken pipe"),
    "closed descriptor": OSError(errno.EBADF, "Bad file descriptor"),
    "file size limit": OSError(errno.EFBIG, "File too large"),
    "closed file": ValueError("I/O operation on closed file."),
}


class Failing(io.StringIO):
    """A stream that cannot be written, a terminal or not."""

    encoding = "utf-8"

    def __init__(self, error, terminal=False):
        super().__init__()
        self.error, self.terminal = error, terminal

    def isatty(self):
        return self.terminal

    def write(self, text):
        raise self.error

    def flush(self):
        raise self.error


def outlets_of(path):
    """Calls in a file that write to a standard stream, and mentions of one that is written to."""
    text = path.read_text(encoding="utf-8")
    written = any(name in text for name in (*OUTLETS, "Live", "sys.std"))
    for node in ast.walk(ast.parse(text)) if written else ():
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            ours = name == "print" and isinstance(node.func, ast.Attribute)  # of a console
            alone = name == "Live" and all(word.arg != "console" for word in node.keywords)
            if (name in OUTLETS and not ours) or alone:
                yield f"{name} (line {node.lineno})"
            if name in ("write", "writelines") and "sys.std" in ast.unparse(node.func):
                yield f"{ast.unparse(node.func)} (line {node.lineno})"


def test_everything_is_printed_by_one_function_or_one_console():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in PRINTS | CONSOLES and path.name != "__main__.py":
            found[name] = list(outlets_of(path))
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_nothing_that_is_said_fails(monkeypatch, kind, stream):
    monkeypatch.setattr(sys, stream, Failing(FAILURES[kind]))
    say("text", error=stream == "stderr")
    monkeypatch.setattr(sys, stream, None)
    say("text", error=stream == "stderr")


@pytest.mark.parametrize("kind", FAILURES)
def test_a_lenient_stream_has_the_rest_of_its_stream(kind):
    stream = Lenient(Failing(FAILURES[kind], terminal=True))
    assert (stream.isatty(), stream.encoding, stream.write("text")) == (True, "utf-8", 4)


def test_characters_that_a_stream_does_not_know_are_escaped():
    raw = io.BytesIO()
    stream = Lenient(io.TextIOWrapper(raw, encoding="ascii"))
    stream.write("…\udc80")
    stream.flush()
    assert raw.getvalue() == rb"\u2026\udc80"


def test_another_stream_than_the_process_has_is_not_known_to_fail():
    assert lost_output() is None


PROGRAM = """
import os, sys
from rltrain.common.machine.streams import keep_streams, lost_output
keep_streams()
print("text", flush=True)
print("error", file=sys.stderr)
os.write(int(sys.argv[1]), repr(lost_output()).encode())
print("last words")
"""


@pytest.mark.parametrize("to", ["/dev/full", "/dev/null", "pipe", "&-"])
def test_a_process_that_keeps_its_streams_ends_as_if_nothing_had_happened(to):
    ours, theirs = os.pipe()
    said, reader = os.pipe()
    os.close(said)  # no process reads
    where = f">&{reader} 2>&{reader}" if to == "pipe" else f">{to} 2>{to}"
    command = ["bash", "-c", f'exec "$@" {where}', "bash", sys.executable, "-c", PROGRAM]
    done = subprocess.run([*command, str(theirs)], pass_fds=(theirs, reader), check=False)
    os.close(theirs)
    os.close(reader)
    with open(ours, encoding="utf-8") as file:
        failure = file.read()
    assert done.returncode == 0
    assert (failure == "None") == (to in ("/dev/null", "&-"))


def test_what_every_environment_warns_of_is_shown_once(monkeypatch, recwarn):
    monkeypatch.setattr("rltrain.common.machine.streams.WARNED", set())
    for _ in range(3):
        with warnings_once():
            for text in ("the same", "the same", "another"):
                warnings.warn(text, stacklevel=1)
    assert [str(each.message) for each in recwarn] == ["the same", "another"]
    with pytest.raises(ZeroDivisionError), warnings_once():
        1 / (warnings.warn("before", stacklevel=1) or 0)
    assert str(recwarn[-1].message) == "before"
