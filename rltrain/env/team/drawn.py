"""Images and drawings of Level-Based Foraging and RWARE, whose own ones need a display."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rltrain.env.grid_image import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    Piece,
    draw_grid,
    grid_drawing,
)
from rltrain.types import Drawing

HEADINGS = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}


class GridView(NamedTuple):
    """A grid world as it is now."""

    shape: tuple[int, int]  # rows, columns
    pieces: list[Piece]
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
        return draw_grid(view.shape, view.pieces)

    def drawing(self) -> Drawing:
        """Units and positions of the current time step."""
        view = self._view(self.unwrapped)
        return grid_drawing(view.shape, view.pieces, view.sight, actions=view.actions)


def view_foraging(env: Any) -> GridView:
    """Food in green and agents in blue, with their levels."""
    food = [
        Piece(row, column, GREEN, True, str(env.field[row, column]), name="food")
        for row, column in np.argwhere(env.field)
    ]
    placed = [(*player.position, str(player.level)) for player in env.players]
    agents = [
        Piece(row, column, BLUE, text=level, name="agent", team=0) for row, column, level in placed
    ]
    sight = env.sight if env.sight < max(env.field.shape) else None
    actions = ["stay", "north", "south", "west", "east", "load"]
    return GridView(env.field.shape, [*food, *agents], actions, sight)


def view_warehouse(env: Any) -> GridView:
    """Goals in gray, shelves in purple, requested ones in orange; robots in blue, those that carry
    a shelf in green.
    """
    goals = [Piece(row, column, GRAY, text="G", name="goal") for column, row in env.goals]
    requested = {shelf.id for shelf in env.request_queue}
    shelves = [
        Piece(s.y, s.x, ORANGE, name="requested shelf")
        if s.id in requested
        else Piece(s.y, s.x, PURPLE, name="shelf")
        for s in env.shelfs
    ]
    robots = [
        Piece(
            *(a.y, a.x, GREEN if a.carrying_shelf else BLUE, True),
            heading=HEADINGS[a.dir.name],
            name="robot with a shelf" if a.carrying_shelf else "robot",
            team=0,
        )
        for a in env.agents
    ]
    actions = ["stay", "forward", "turn left", "turn right", "load or unload"]
    return GridView(env.grid_size, [*goals, *shelves, *robots], actions, env.sensor_range)
