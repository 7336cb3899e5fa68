"""SMACv2's scenarios as data (Ellis et al., 2023): teams of one race drawn for every battle.

A scenario is ``<race>_<n>_vs_<m>``, n agents against m enemies; 15 of them are published. A new
race is one more row of ``RACES``. Nothing here is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.battles.data.map_data import SIZE, Group, MapData
from rltrain.battles.data.maps import MAPS
from rltrain.battles.option_checks import closest

LIMIT = 200  # env steps
MAP_FILE = "32x32_flat"  # the one map of the game that all scenarios are played on
MAX_UNITS = 64  # of one side
REFLECT = 0.5  # probability that the teams face each other, else the agents begin surrounded
SURROUND_AT = 14.0  # west and south side of the square around the center that groups keep out of
MAX_GROUPS = 4  # of enemies around the agents, one on each diagonal
SHOOT_RANGES: Mapping[str, float] = {
    "stalker": 6, "zealot": 0.1, "colossus": 7, "zergling": 0.1, "baneling": 0.25, "hydralisk": 5,
    "marine": 5, "marauder": 6, "medivac": 4,
}  # fmt: skip
"""Center distances, cells: where attacks (a healer's healing) become available, weapons aside."""


@dataclass(frozen=True)
class Race:
    """The distribution of a team."""

    weights: Mapping[str, float]  # unit type to probability
    exception: str | None  # a team of nothing else is drawn again


RACES: Mapping[str, Race] = {
    "terran": Race({"marine": 0.45, "marauder": 0.45, "medivac": 0.1}, "medivac"),
    "protoss": Race({"stalker": 0.45, "zealot": 0.45, "colossus": 0.1}, None),
    "zerg": Race({"zergling": 0.45, "hydralisk": 0.45, "baneling": 0.1}, "baneling"),
}
COUNTS = ((5, 5), (10, 10), (20, 20), (10, 11), (20, 23))  # published
SCENARIOS = tuple(f"{race}_{n}_vs_{m}" for race in RACES for n, m in COUNTS)
_PATTERN = re.compile(rf"({'|'.join(RACES)})_(\d{{1,3}})_vs_(\d{{1,3}})")


def is_scenario(name: str) -> bool:
    """Whether this is a scenario's name, published or not."""
    match = _PATTERN.fullmatch(str(name))
    return match is not None and all(1 <= int(n) <= MAX_UNITS for n in match.groups()[1:])


def find_scenario(name: str) -> MapData:
    """The scenario's row; ValueError with the nearest names if there is none."""
    match = _PATTERN.fullmatch(str(name))
    if match is None:
        if str(name) in MAPS:
            raise ValueError(
                f"{name!r} is a map of SMAC, not a scenario of SMACv2: make a StarCraft2Env, or "
                f"for rltrain type env=smac env.map_name={name}."
            )
        near = closest(str(name), SCENARIOS)
        published = f" Published: {', '.join(SCENARIOS)}."
        raise ValueError(
            f"unknown SMACv2 scenario {name!r:.80}: expected <race>_<agents>_vs_<enemies> with "
            f"race {', '.join(RACES)} and 1 to {MAX_UNITS} units a side."
            + (f" Did you mean {' or '.join(near)}?" if near else published)
        )
    race, agents, enemies = match.groups()
    if not is_scenario(name):
        raise ValueError(
            f"SMACv2 scenario {name!r:.80}: expected 1 to {MAX_UNITS} units a side, got "
            f"{agents} and {enemies}."
        )
    types = tuple(RACES[race].weights)
    return MapData(
        name=f"{race}_{int(agents)}_vs_{int(enemies)}",
        limit=LIMIT,
        map_type=f"{race}_gen",
        terrain="open",
        attack_point=None,
        chases=True,
        drawn_from=types,
        allies=(Group(types[0], int(agents), 8, 16),),
        enemies=(Group(types[0], int(enemies), 24, 16),),
    )


def find_race(map_data: MapData) -> Race:
    """The distributions of a scenario's teams."""
    return RACES[map_data.map_type.removesuffix("_gen")]


def scenario_options(row: MapData) -> dict[str, Any]:
    """Keywords of smacv2's ``StarCraftCapabilityEnvWrapper`` that make the scenario."""
    race = find_race(row)
    team: dict[str, Any] = {
        "dist_type": "weighted_teams",
        "unit_types": list(race.weights),
        "weights": list(race.weights.values()),
        "observe": True,
    }
    if race.exception is not None:
        team["exception_unit_types"] = [race.exception]
    return {
        "map_name": f"10gen_{row.map_type.removesuffix('_gen')}",
        "capability_config": {
            "n_units": row.n_agents,
            "n_enemies": row.n_enemies,
            "team_gen": team,
            "start_positions": {
                "dist_type": "surrounded_and_reflect",
                "p": REFLECT,
                "map_x": SIZE,
                "map_y": SIZE,
            },
        },
    }
