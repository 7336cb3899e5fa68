"""Images of Level-Based Foraging and RWARE, whose own ones need a display."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from rltrain.env.grid_image import BLUE, GRAY, GREEN, ORANGE, PURPLE, Piece, draw_grid

HEADINGS = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}


class Drawn(gymnasium.Wrapper):
    """An environment with the images of ``draw(env.unwrapped)``."""

    render_mode = "rgb_array"

    def __init__(self, env: gymnasium.Env, draw: Callable[[Any], np.ndarray]) -> None:
        super().__init__(env)
        self._draw = draw
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def render(self) -> Any:
        return self._draw(self.unwrapped)


def draw_foraging(env: Any) -> np.ndarray:
    """Food in green and agents in blue, with their levels."""
    food = [
        Piece(row, column, GREEN, True, str(env.field[row, column]))
        for row, column in np.argwhere(env.field)
    ]
    placed = [(*player.position, str(player.level)) for player in env.players]
    agents = [Piece(row, column, BLUE, text=level) for row, column, level in placed]
    return draw_grid(env.field.shape, [*food, *agents])


def draw_warehouse(env: Any) -> np.ndarray:
    """Goals in gray, shelves in purple, requested ones in orange; robots in blue, those that carry
    a shelf in green.
    """
    goals = [Piece(row, column, GRAY, text="G") for column, row in env.goals]
    requested = {shelf.id for shelf in env.request_queue}
    shelves = [Piece(s.y, s.x, ORANGE if s.id in requested else PURPLE) for s in env.shelfs]
    robots = [
        Piece(a.y, a.x, GREEN if a.carrying_shelf else BLUE, True, heading=HEADINGS[a.dir.name])
        for a in env.agents
    ]
    return draw_grid(env.grid_size, [*goals, *shelves, *robots])
