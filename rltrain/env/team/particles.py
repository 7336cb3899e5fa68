"""Drawings of particle worlds, whose ``world`` has ``agents`` and ``entities`` as those of the
multi-particle environments do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rltrain.types import Drawing

MOVES = ("stay", "left", "right", "down", "up")


def has_particles(env: Any) -> bool:
    """Whether an environment is a particle world."""
    entities = getattr(getattr(env, "world", None), "entities", ())
    return bool(entities) and all(hasattr(entity.state, "p_pos") for entity in entities)


def particle_drawing(world: Any, names: Sequence[str]) -> Drawing:
    """The agents of these names in this order, then the others, then landmarks."""
    agents = {agent.name: agent for agent in world.agents}
    learners = [agents[name] for name in names]
    others = [agent for agent in world.agents if agent.name not in names]
    things = [entity for entity in world.entities if entity.name not in agents]
    teams = [0] * len(learners) + [1] * len(others) + [2] * len(things)
    units = [*learners, *others, *things]
    looks = [
        {"name": unit.name, "team": team, "radius": float(unit.size), "color": color_of(unit)}
        for unit, team in zip(units, teams, strict=True)
    ]
    x, y = np.array([unit.state.p_pos for unit in units], np.float32).T
    at_rest = all(agent.silent for agent in learners)
    return Drawing(
        {"bounds": [-1.3, -1.3, 1.3, 1.3], "rate": 8, **({"actions": MOVES} if at_rest else {})},
        looks,
        {"x": x, "y": y},
    )


def color_of(unit: Any) -> str:
    """The color of an agent or a landmark, which are given from 0 to 1."""
    channels = [0.5] * 3 if unit.color is None else unit.color[:3]
    return "#" + "".join(f"{round(255 * min(max(float(c), 0.0), 1.0)):02x}" for c in channels)
