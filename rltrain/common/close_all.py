"""Closing several things at the end of a run, where a failure is no reason to leave others open."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from rltrain.errors import STOPS, reason

log = logging.getLogger("rltrain")


class Closable(Protocol):
    """Something that holds processes, files or connections."""

    def close(self) -> None: ...


def close_all(name: str, parts: Iterable[Closable]) -> None:
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
