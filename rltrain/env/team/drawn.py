"""Images and drawings of Level-Based Foraging and RWARE, whose own ones need a display; drawings of
particle worlds, whose ``world`` has ``agents`` and ``entities`` as in multi-particle environments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rltrain.env import grid_image as grid
from rltrain.types import Drawing

HEADINGS = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}


class GridView(NamedTuple):
    """A grid world as it is now."""

    shape: tuple[int, int]  # rows, columns
    pieces: list[grid.Piece]
    actions: list[str]
    sight: int | None  # cells that agents see in each direction; None = all


class Drawn(gymnasium.Wrapper):
    """An environment with images and drawings of ``view(env.unwrapped)``."""

    render_mode = "rgb_array"

    def __init__(self, env: gymnasium.Env, view: Callable[[Any], GridView]) -> None:
        super().__init__(env)
        self._view = view
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def render(self) -> Any:
        view = self._view(self.unwrapped)
        return grid.draw_grid(view.shape, view.pieces)

    def drawing(self) -> Drawing:
        """Units and positions of the current time step."""
        view = self._view(self.unwrapped)
        return grid.grid_drawing(view.shape, view.pieces, view.sight, actions=view.actions)


def view_foraging(env: Any) -> GridView:
    """Food in green and agents in blue, with their levels."""
    food = [
        grid.Piece(row, column, grid.GREEN, True, str(env.field[row, column]), name="food")
        for row, column in np.argwhere(env.field)
    ]
    placed = [(*player.position, str(player.level)) for player in env.players]
    agents = [
        grid.Piece(row, column, grid.BLUE, text=level, name="agent", team=0)
        for row, column, level in placed
    ]
    sight = env.sight if env.sight < max(env.field.shape) else None
    actions = ["stay", "north", "south", "west", "east", "load"]
    return GridView(env.field.shape, [*food, *agents], actions, sight)


def view_warehouse(env: Any) -> GridView:
    """Goals in gray, shelves in purple, requested ones in orange; robots in blue, those that carry
    a shelf in green.
    """
    goals = [grid.Piece(row, column, grid.GRAY, text="G", name="goal") for column, row in env.goals]
    requested = {shelf.id for shelf in env.request_queue}
    shelves = [
        grid.Piece(s.y, s.x, grid.ORANGE, name="requested shelf")
        if s.id in requested
        else grid.Piece(s.y, s.x, grid.PURPLE, name="shelf")
        for s in env.shelfs
    ]
    robots = [
        grid.Piece(
            *(a.y, a.x, grid.GREEN if a.carrying_shelf else grid.BLUE, True),
            heading=HEADINGS[a.dir.name],
            name="robot with a shelf" if a.carrying_shelf else "robot",
            team=0,
        )
        for a in env.agents
    ]
    actions = ["stay", "forward", "turn left", "turn right", "load or unload"]
    return GridView(env.grid_size, [*goals, *shelves, *robots], actions, env.sensor_range)


MOVES = ("stay", "left", "right", "down", "up")


def has_particles(env: object) -> bool:
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
        {"name": unit.name, "team": team, "radius": float(unit.size), "color": read_color(unit)}
        for unit, team in zip(units, teams, strict=True)
    ]
    x, y = np.array([unit.state.p_pos for unit in units], np.float32).T
    at_rest = all(agent.silent for agent in learners)
    return Drawing(
        {"bounds": [-1.3, -1.3, 1.3, 1.3], "rate": 8, **({"actions": MOVES} if at_rest else {})},
        looks,
        {"x": x, "y": y},
    )


def read_color(unit: Any) -> str:
    """The color of an agent or a landmark, which are given from 0 to 1."""
    channels = [0.5] * 3 if unit.color is None else unit.color[:3]
    return "#" + "".join(f"{round(255 * min(max(float(c), 0.0), 1.0)):02x}" for c in channels)
