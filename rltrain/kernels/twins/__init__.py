"""Compiled counterparts and the plain code that they double: what one reads is what runs.

Where plain code is no longer what a counterpart was written for, PyTorch computes it instead.
"""

from __future__ import annotations

import logging
from functools import cache
from multiprocessing import parent_process
from typing import Any

from rltrain.kernels.twins.digests import changed, file_of
from rltrain.kernels.twins.table import TWINS

log = logging.getLogger("rltrain")


def doubled(kernels: tuple[str, ...], objects: list[Any], required: bool) -> bool:
    """Whether counterparts still compute what the plain code of these objects does.

    Args:
        kernels: files below ``rltrain/kernels``.
        objects: whose classes are looked up in the table.
        required: whether to refuse instead.

    Raises:
        ValueError: they do not, and they are required.
    """
    classes = {f"{c.__module__}:{c.__name__}" for x in objects for c in type(x).__mro__}
    twins = [twin for twin in TWINS if twin.kernel in kernels and f"rltrain.{twin.of}" in classes]
    places = dict.fromkeys(place for twin in twins for place in twin.plain)
    differ = [(file_of(place), name) for place in places for name in changed(place)]
    for file, name in dict.fromkeys(differ):
        computes_plainly(f"{file}: {name} was changed", required)
    return not differ


def computes_plainly(reason: str, required: bool = False) -> None:
    """Log once that PyTorch computes something, and why.

    Raises:
        ValueError: compiled code is required.
    """
    if required:
        raise ValueError(
            f"hardware.kernels=compiled: {reason}, so that its compiled counterpart computes "
            "something else. Type hardware.kernels=auto, with which PyTorch computes it."
        )
    if parent_process() is None:  # workers of a run have the same reasons
        _log_once(reason)


@cache
def _log_once(reason: str) -> None:
    log.warning("%s: PyTorch computes it, as with hardware.kernels=torch.", reason)
