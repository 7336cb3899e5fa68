"""Writes of a run that may fail, as on a full disk, while the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("rltrain")


class Disk:
    """Which files of a run cannot be written now; a kind of file is warned of once.

    Attributes:
        failing: kinds of files whose last write failed.
        degraded: whether a write has ever failed.
    """

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.degraded = False

    def attempt(self, what: str, write: Callable[[], Any]) -> bool:
        """Call ``write``; returns whether it succeeded.

        Args:
            what: the kind of file, as in "a checkpoint".
        """
        try:
            write()
        except OSError as error:
            level = logging.INFO if what in self.failing else logging.WARNING
            self.failing.add(what)
            self.degraded = True
            log.log(level, "%s could not be written (%s); the run goes on", what, error)
            return False
        if what in self.failing:
            self.failing.remove(what)
            log.warning("%s could be written again", what)
        return True
