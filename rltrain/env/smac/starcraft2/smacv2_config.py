"""A SMACv2 scenario in the form of the ``smacv2`` package: its map entry and capability config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAP_FILE = "32x32_flat"
"""The one map that all scenarios are played on."""
MAP_SIDE = 32  # cells


def scenario_options(
    *,
    race: str,
    n_agents: int,
    n_enemies: int,
    weights: Mapping[str, float],
    exception: str | None,
    reflect: float,
) -> dict[str, Any]:
    """Keywords of ``StarCraftCapabilityEnvWrapper`` that make the scenario.

    Args:
        race: terran, protoss or zerg.
        weights: unit type to probability.
        exception: a team of nothing but this type is drawn again.
        reflect: probability that the teams face each other, else the agents begin surrounded.
    """
    team: dict[str, Any] = {
        "dist_type": "weighted_teams",
        "unit_types": list(weights),
        "weights": list(weights.values()),
        "observe": True,
    }
    if exception is not None:
        team["exception_unit_types"] = [exception]
    return {
        "map_name": f"10gen_{race}",
        "capability_config": {
            "n_units": n_agents,
            "n_enemies": n_enemies,
            "team_gen": team,
            "start_positions": {
                "dist_type": "surrounded_and_reflect",
                "p": reflect,
                "map_x": MAP_SIDE,
                "map_y": MAP_SIDE,
            },
        },
    }
