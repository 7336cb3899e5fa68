"""Locks of files and folders, which the system releases when their processes end in any way."""

from __future__ import annotations

import fcntl


def take(handle: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed. False if another process holds it; None where
    the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
