"""A match that was started, from an untrusted ``match.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from rltrain.common.files import JsonObject
from rltrain.common.json_text import read_strictly
from rltrain.errors import CheckpointError
from rltrain.logger.screen import shown

Count = Annotated[int, Field(ge=0)]
Recording = Annotated[
    str, Field(pattern=r"^recordings/[0-9-]{1,40}/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$")
]
"""The path of a file, within the folder of the match."""
Pairing = tuple[str, str, Sequence[tuple[str, str]]]
"""Two agents, and of each side those that play it."""


@dataclass(frozen=True)
class SavedSide:
    """The battles of a pairing on one side."""

    agents: str
    enemies: str
    wins: Count
    draws: Count
    losses: Count
    files: tuple[Recording, ...]


@dataclass(frozen=True)
class SavedPairing:
    """The battles of two agents."""

    first: str
    second: str
    sides: tuple[SavedSide, ...]


def read_pairings(
    path: Path, record: JsonObject, every: Sequence[Pairing], battles: int
) -> list[dict[str, Any]]:
    """The finished pairings in the ``record`` of a match, which are the first of ``every``.

    Args:
        battles: of each pairing.

    Raises:
        CheckpointError: they differ, or were not written by a match.
    """
    pairings: Any = record.get("pairings")
    try:
        saved = read_strictly(tuple[SavedPairing, ...], json.dumps(pairings))
        require_played(saved, every, battles)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{shown(path)} is damaged: its finished pairings cannot be read ({error}). Delete "
            "its folder, and the same command begins the match again."
        ) from error
    return list(pairings)


def require_played(saved: Sequence[SavedPairing], every: Sequence[Pairing], battles: int) -> None:
    """ValueError unless the pairings are the first of ``every``, with all of their battles."""
    if len(saved) > len(every):
        raise ValueError(f"expected at most {len(every)}, got {len(saved)}")
    for i, (found, (first, second, sides)) in enumerate(zip(saved, every, strict=False)):
        there = (found.first, found.second, [(one.agents, one.enemies) for one in found.sides])
        if there != (first, second, list(sides)):
            raise ValueError(f"{i}: expected the sides of {first} and {second}")
        for one in found.sides:
            played, expected = one.wins + one.draws + one.losses, battles // len(sides)
            if played != expected:
                raise ValueError(f"{i}: expected {expected} battles on a side, got {played}")
