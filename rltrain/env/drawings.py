"""Images and drawings without a display: grid worlds, among them Level-Based Foraging and RWARE,
whose own ones need a display, and particle worlds, whose ``world`` has ``agents`` and ``entities``
as in multi-particle environments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rltrain.types import Drawing

CELL = 24  # pixels
PAPER, GRID, INK = (250, 250, 250), (214, 214, 214), (255, 255, 255)
BLUE, GREEN, ORANGE, PURPLE, GRAY = (
    (31, 119, 180),
    (44, 140, 70),
    (225, 120, 20),
    (150, 125, 190),
    (120, 120, 120),
)
HEADINGS = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}
"""Rows and columns to the cell that a robot faces."""
MOVES = ("stay", "left", "right", "down", "up")
"""Actions of multi-particle environments."""


class Piece(NamedTuple):
    """An object in a cell.

    Attributes:
        round: drawn as a disc instead of a square.
        text: one or two letters on it.
        heading: (rows, columns) to the cell that it faces.
        name: kind of object.
        team: 0 agents, 1 opponents, 2 things.
    """

    row: int
    column: int
    color: tuple[int, int, int]
    round: bool = False
    text: str = ""
    heading: tuple[int, int] | None = None
    name: str = ""
    team: int = 2


def draw_grid(shape: tuple[int, int], pieces: Iterable[Piece]) -> np.ndarray:
    """Draw a grid of ``shape`` (rows, columns), later pieces on top of earlier ones: uint8
    [H, W, 3].
    """
    n_rows, n_columns = shape
    image = Image.new("RGB", (n_columns * CELL + 1, n_rows * CELL + 1), PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=13)
    for i in range(n_rows + 1):
        draw.line((0, i * CELL, n_columns * CELL, i * CELL), GRID)
    for i in range(n_columns + 1):
        draw.line((i * CELL, 0, i * CELL, n_rows * CELL), GRID)
    for piece in pieces:
        left, top = piece.column * CELL, piece.row * CELL
        margin = 4 if piece.round else 2
        box = (left + margin, top + margin, left + CELL - margin, top + CELL - margin)
        (draw.ellipse if piece.round else draw.rectangle)(box, piece.color)
        x, y = left + CELL / 2, top + CELL / 2
        if piece.heading is not None:
            down, right = piece.heading
            draw.line((x, y, x + right * CELL / 2, y + down * CELL / 2), INK, 3)
        draw.text((x, y), piece.text, INK, font, anchor="mm")
    return np.asarray(image)


def grid_drawing(
    shape: tuple[int, int], pieces: Sequence[Piece], sight: int | None = None, **world: Any
) -> Drawing:
    """The grid as a ``Drawing``, agents first in their order.

    Args:
        sight: cells that agents see in each direction; None = all.
        world: other items of ``Drawing.world``.
    """
    n_rows, n_columns = shape
    units = sorted(pieces, key=lambda piece: piece.team)
    seen = {} if sight is None else {"sight": sight + 0.5, "sees_square": True}
    looks = [
        {"name": p.name, "team": p.team, "radius": 0.36, "square": not p.round, "text": p.text}
        | {"color": f"#{bytes(p.color).hex()}"}
        | (seen if p.team == 0 else {})
        for p in units
    ]
    rows, columns = np.array([(p.row, p.column) for p in units], np.float32).reshape(-1, 2).T
    placed = {"x": columns + 0.5, "y": n_rows - 0.5 - rows}
    if any(p.heading for p in units):
        turned = [math.atan2(-p.heading[0], p.heading[1]) if p.heading else 0.0 for p in units]
        placed["facing"] = np.array(turned, np.float32)
    bounds = [0, 0, int(n_columns), int(n_rows)]
    return Drawing({"bounds": bounds, "grid": True, "rate": 3} | world, looks, placed)


class GridView(NamedTuple):
    """A grid world as it is now."""

    shape: tuple[int, int]  # rows, columns
    pieces: list[Piece]
    actions: list[str]
    sight: int | None  # cells that agents see in each direction; None = all


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
