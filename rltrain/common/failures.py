"""Failures that a run outlives: files that cannot be written, and parts that cannot be closed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rltrain.errors import STOPS, reason

log = logging.getLogger("rltrain")


@dataclass
class Disk:
    """Which files of a run cannot be written now; a kind of file is reported once.

    Attributes:
        failing: kinds of files whose last write failed.
        degraded: whether a write has ever failed.
    """

    failing: set[str] = field(default_factory=set)
    degraded: bool = False

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Context that writes files and ends where that fails. What a user's callback raises
        meanwhile, which has a note on where, is no failure of the disk and raised.

        Args:
            what: the kind of file, as in "a checkpoint".
        """
        try:
            yield
        except OSError as error:
            if hasattr(error, "__notes__"):
                raise
            level = logging.INFO if what in self.failing else logging.WARNING
            self.failing.add(what)
            self.degraded = True
            log.log(level, "%s could not be written (%s); the run continues", what, error)
            return
        if what in self.failing:
            self.failing.remove(what)
            log.warning("%s could be written again", what)


@contextmanager
def closed_on_error(name: str, parts: Iterable[Any]) -> Iterator[None]:
    """Context in which parts are made: ``close_all`` of them if an exception leaves it."""
    try:
        yield
    except BaseException:
        close_all(name, parts)
        raise


def close_all(name: str, parts: Iterable[Any]) -> None:
    """Close every part; what some of them raise is a warning, once for equal errors.

    Args:
        name: what one of them is, as in "an environment".
    """
    raised: dict[str, BaseException] = {}
    for part in parts:
        try:
            part.close()
        except STOPS:
            raise
        except BaseException as error:
            raised.setdefault(reason(error), error)
    for text, first in raised.items():
        log.warning("%s could not be closed (%s)", name, text, exc_info=first)
