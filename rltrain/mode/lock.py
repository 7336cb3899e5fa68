"""One process at a time trains in a run folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rltrain.common.files import json_object
from rltrain.errors import UsageError
from rltrain.logger.screen import shown


@contextmanager
def run_lock(run_dir: Path) -> Iterator[None]:
    """Hold a run folder. The lock is on the folder itself and ends with its process, so that none
    is left by one that was killed; where the file system has no locks, nothing is held.

    Raises:
        UsageError: another process holds it.
    """
    folder = os.open(run_dir, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        process = json_object(run_dir / "run.json").get("process", "another")
        raise UsageError(
            f"The run in {shown(run_dir)} is going on already (process {process}). Wait until it "
            "has ended, or stop it with Ctrl-C; it saves its state. Then resume it."
        ) from None
    except OSError:  # the file system has no locks
        pass
    try:
        yield
    finally:
        os.close(folder)
