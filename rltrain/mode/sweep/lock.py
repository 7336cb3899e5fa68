"""One command at a time works in the folder of a sweep."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltrain.common.streams import say
from rltrain.errors import UsageError
from rltrain.logger.screen import shown


@contextmanager
def locked(folder: Path) -> Iterator[int | None]:
    """Hold the folder until this process and every process that inherits the yielded file
    descriptor have ended; None where the file system has no locks.

    If the command that held it was killed, wait for its runs: they save and end by themselves.

    Raises:
        UsageError: another command works in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            require_ended(file.read(), folder)
            say(f"Waiting until the runs of the stopped sweep in {shown(folder)} have saved.")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield None
            return
        file.truncate(0)
        file.write(f"{platform.node()} {os.getpid()}")
        file.flush()
        yield file.fileno()


def require_ended(holder: str, folder: Path) -> None:
    """UsageError if the holder of a folder, ``host pid``, is at work or on another machine."""
    host, _, pid = holder.partition(" ")
    try:
        if host == platform.node():
            os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return
    except PermissionError:
        pass
    raise UsageError(
        f"The sweep in {shown(folder)} is running already (process {pid} on {host}). Wait until "
        "it has ended, or type hydra.sweep.dir=FOLDER for a second one of the same overrides."
    )
