"""Start positions that were recorded in StarCraft II (``python -m benchmarks.record_game``).

The file is JSON, ``{"maps": {name: {"starts": [start, …], …}, …}, …}``. A start is one first frame,
``{"allies": {unit type: [[x, y], …], …}, "enemies": …}`` in cells, as in start_positions.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rltrain.battles.data.map_data import SIZE, MapData

Point = tuple[float, float]
Positions = Mapping[str, Mapping[str, list[Point]]]
"""Team (allies or enemies), unit type, points in creation order."""


MOST_BYTES = 1 << 24
"""A larger file is not read."""


class Fault(ValueError):
    """A problem with a file."""


class RecordedStarts(NamedTuple):
    """The first frames of one map, and the file for records: its name and a part of its SHA-256."""

    starts: tuple[Positions, ...]
    file: str


def read_starts(path: str, map_data: MapData) -> RecordedStarts:
    """The start positions of a map from a recorded file.

    Raises:
        ValueError: the file cannot be read, lacks the map, or does not fit its teams.
    """
    try:
        text = read_plain(path, MOST_BYTES)
        maps = dict(json.loads(text)["maps"])
    except OSError as error:
        raise refusal(path, f"cannot be read: {error.strerror}") from None
    except Fault as fault:
        raise refusal(path, str(fault)) from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise refusal(path, f"is not a recorded file: expected JSON with maps ({reason})") from None
    if map_data.name not in maps:
        known = ", ".join(sorted(map(str, maps))) or "no map at all"
        raise refusal(path, f"has no map {map_data.name}, only {known}")
    found = maps[map_data.name]
    starts = found.get("starts") if isinstance(found, dict) else None
    if not isinstance(starts, list) or not starts:
        raise refusal(path, f"has no start positions of {map_data.name}")
    for start in starts:
        check_start(path, start, map_data)
    name = f"{Path(path).name} {hashlib.sha256(text).hexdigest()[:12]}"
    return RecordedStarts(tuple(starts), name)


def read_plain(path: str, most: int) -> bytes:
    """The content of an untrusted file of at most so many bytes; a pipe is not waited for.

    Raises:
        Fault: it is larger, or a pipe or a device.
        OSError: it cannot be read.
    """
    handle = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Fault("is a pipe or a device, which is not read")
        text = file.read(most + 1)
    if len(text) > most:
        raise Fault(f"is larger than {most:,} bytes")
    return text


def check_start(path: str, start: object, map_data: MapData) -> None:
    """Raise ValueError unless ``start`` has a point on the map for every unit."""
    teams = {"allies": map_data.ally_types, "enemies": map_data.enemy_types}
    if not isinstance(start, dict) or any(not isinstance(start.get(team), dict) for team in teams):
        raise refusal(path, "has a start of " + map_data.name + " without allies and enemies")
    for team, types in teams.items():
        expected = dict(Counter(types))
        found = {
            name: len(points) if isinstance(points, list) else type(points).__name__
            for name, points in start[team].items()
        }
        if found != expected:
            raise refusal(
                path, f"does not fit {map_data.name}: {team} expected {expected}, got {found}"
            )
        for name, points in start[team].items():
            for point in points:
                if not is_point(point):
                    raise refusal(
                        path,
                        f"has a {name} of {map_data.name} at {point}: expected [x, y] with two "
                        f"numbers from 0 to {SIZE}",
                    )


def is_point(value: object) -> bool:
    """Whether this is [x, y] on the map."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(v) in (int, float) and 0 <= v < SIZE for v in value)
    )


def refusal(path: str, why: str) -> ValueError:
    """The error for a file that cannot be used."""
    return ValueError(
        f"start_positions: the file {path} {why:.600}. Record one where StarCraft II is installed "
        "(python -m benchmarks.record_game), or leave start_positions out."
    )
