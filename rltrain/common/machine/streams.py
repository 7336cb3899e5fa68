"""Standard output and standard error, which a full disk, a closed pipe or a vanished terminal may
take away at any time: what cannot be written is lost, and nothing else.
"""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rltrain.errors import printable

COLOR = re.compile("\x1b\\[[0-9;]*m")
"""The escapes with which packages color their warnings."""


class Descriptor(io.FileIO):
    """A standard stream whose writes never fail. ``failure`` is the first error."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            written: int | None = super().write(data)
        except OSError as error:
            self.failure = self.failure or error
            written = None
        return len(data) if written is None else written


class Lenient:
    """A text stream, or None, to which nothing that is printed fails."""

    def __init__(self, stream: Any) -> None:
        self.stream = io.StringIO() if stream is None else stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it was closed
            try:
                self.stream.write(text)
            except UnicodeEncodeError as error:
                known = text.encode(error.encoding, "backslashreplace")
                self.stream.write(known.decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self.stream.flush()


def say(text: object, *, error: bool = False, end: str = "\n") -> None:
    """``print`` without failing, control characters as text."""
    stream = Lenient(sys.stderr if error else sys.stdout)
    print(printable(str(text)), file=stream, end=end, flush=True)


def keep_streams() -> None:
    """Let nothing that this process prints fail from now on: environments and
    other packages do as well. Closed descriptors are opened, so that no file takes their number.
    What packages warn of is shown as text.
    """
    plain = warnings.formatwarning
    warnings.formatwarning = lambda *about, **more: printable(COLOR.sub("", plain(*about, **more)))
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue  # closed, or someone else's
        Lenient(stream).flush()
        raw = Descriptor(stream.fileno(), "w", closefd=False)
        text = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, text)


WARNED: set[str] = set()
"""Messages that ``warnings_once`` has shown."""


@contextmanager
def warnings_once() -> Iterator[None]:
    """Show what is warned of inside only if this process has not shown it before."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        for each in caught:
            if (text := str(each.message)) not in WARNED:
                WARNED.add(text)
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def lost_output() -> OSError | None:
    """Why something that was printed to standard output could not be written, if it is known."""
    Lenient(sys.stdout).flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, Descriptor) else None
