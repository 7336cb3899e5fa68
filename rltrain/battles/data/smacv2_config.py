"""A SMACv2 scenario in the form of the ``smacv2`` package: its map entry and capability config."""

from __future__ import annotations

from typing import Any

from rltrain.battles.data.map_data import MapData
from rltrain.battles.data.scenarios import REFLECT, race_of
from rltrain.battles.data.terrain import SIZE

MAP_FILE = "32x32_flat"
"""The one map that all scenarios are played on."""


def scenario_options(row: MapData) -> dict[str, Any]:
    """Keywords of ``StarCraftCapabilityEnvWrapper`` that make the scenario."""
    race = race_of(row)
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
