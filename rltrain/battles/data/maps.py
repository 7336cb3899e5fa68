"""The 23 SMAC maps as data: teams, positions and time limits, those of a field by their names
(``field_maps``). A new map is one more row.

Sizes of observations and states follow in ``options.py``; nothing here is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rltrain.battles.data.field_maps import field_map, is_sized, sized_map
from rltrain.battles.data.map_data import Group, MapData
from rltrain.battles.option_checks import closest

_ROWS = (
    *map(sized_map, ("3m", "8m", "25m", "5m_vs_6m", "8m_vs_9m", "10m_vs_11m", "27m_vs_30m")),
    field_map("MMM", 150, "MMM", {"marine": 7, "marauder": 2, "medivac": 1},
           {"marine": 7, "marauder": 2, "medivac": 1}),
    field_map("MMM2", 180, "MMM", {"marine": 7, "marauder": 2, "medivac": 1},
           {"marine": 8, "marauder": 3, "medivac": 1}),
    *map(sized_map, ("2s3z", "3s5z")),
    replace(sized_map("3s5z_vs_3s6z"), limit=170),
    *map(sized_map, ("3s_vs_3z", "3s_vs_4z", "3s_vs_5z", "1c3s5z")),
    MapData(
        name="2m_vs_1z", limit=150, map_type="marines", terrain="octagon",
        attack_point=(13, 12), attack_span=(6, 0),
        allies=(Group("marine", 1, 13, 12), Group("marine", 1, 19, 12)),
        enemies=(Group("zealot", 1, 16, 19),),
    ),
    MapData(
        name="corridor", limit=400, map_type="zealots", terrain="corridor",
        attack_point=(4.47, 4.3298),
        allies=(Group("zealot", 6, 19.0397, 19.1198),),
        enemies=(Group("zergling", 24, 27.91, 28.24),),
    ),
    MapData(
        name="6h_vs_8z", limit=150, map_type="hydralisks", terrain="arena",
        attack_point=(14.5998, 9.49),
        allies=(Group("hydralisk", 6, 14.5998, 9.49),),
        enemies=(Group("zealot", 8, 14.41, 16.7597),),
    ),
    MapData(
        name="2s_vs_1sc", limit=300, map_type="stalkers", terrain="pentagon",
        attack_point=None,
        allies=(Group("stalker", 1, 11.1208, 10.338), Group("stalker", 1, 16.976, 10.3662)),
        enemies=(Group("spine_crawler", 1, 13.92, 20.0397),),
    ),
    MapData(
        name="so_many_baneling", limit=100, map_type="zealots", terrain="lane",
        attack_point=(4.47, 4.3298),
        allies=(Group("zealot", 7, 11.469, 12.0234),),
        enemies=(Group("baneling", 32, 27.91, 28.24),),
    ),
    MapData(
        name="bane_vs_bane", limit=200, map_type="bane", terrain="octagon",
        attack_point=(16, 8),
        allies=(Group("zergling", 20, 16, 11), Group("baneling", 4, 16, 8)),
        enemies=(Group("zergling", 20, 16, 21), Group("baneling", 4, 16, 24)),
    ),
    MapData(
        name="2c_vs_64zg", limit=400, map_type="colossus", terrain="ravine",
        attack_point=None, hunts=True,
        allies=(Group("colossus", 2, 16, 16),),
        enemies=(Group("zergling", 64, 16, 9),),
    ),
)  # fmt: skip

MAPS: Mapping[str, MapData] = {row.name: row for row in _ROWS}
ALIASES: Mapping[str, str] = {"so_many_banelings": "so_many_baneling"}


def map_names() -> list[str]:
    """Names of all 23 maps."""
    return list(MAPS)


def find_map(name: str) -> MapData:
    """The map's row, one of ``map_files/``, or one of the size that the name tells
    (``field_maps``); ValueError with the nearest names if there is none."""
    name = ALIASES.get(str(name), str(name))
    if name in MAPS:
        return MAPS[name]
    from rltrain.battles.data.map_file import shipped_map, shipped_names  # NumPy and YAML

    if name in shipped_names():
        return shipped_map(name)
    if is_sized(name):
        return sized_map(name)
    if match := re.fullmatch(r"(?:10gen_)?(terran|protoss|zerg)(_\d+_vs_\d+)?", name):
        hint = "it is a scenario of SMACv2: make a StarCraftCapabilityEnv, or for rltrain "
        hint += f"type env=smacv2 env.map_name={match[1]}{match[2] or '_10_vs_10'}."
    elif near := closest(name, (*MAPS, *shipped_names())):
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = (
            f"expected one of {', '.join((*MAPS, *shipped_names()))}, or a size such as 7m_vs_8m."
        )
    raise ValueError(f"unknown SMAC map {name!r:.80}: {hint}")
