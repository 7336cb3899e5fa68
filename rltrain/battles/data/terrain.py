"""Terrains as data: which of the 32 x 32 cells units can walk on, and the walls and ways around
them that follow from it. Nothing here is compiled.

A terrain is a name, or a picture: lines of "." (units can walk) and "#", the last one of them
y = 0. A new name is one more row of ``PATHABLE``: row y to inclusive ranges of x. Origin
bottom-left, y points north. Terrain heights are not part of the published map data: ground and
blocked cells get one level each.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from rltrain.battles.data.map_data import SIZE

PLAYABLE = 28  # width and height of the part of every map that the game calls playable
GROUND_LEVEL, BLOCKED_LEVEL = 191.0 / 255.0, 175.0 / 255.0
MAX_WALLS = 63  # of one terrain: sets of walls are bits of an int64
WALL_REACH = 1.5  # cells; more than a unit touches and is pushed in one loop
STEPS_PER_CELL = 4  # samples of a straight walk
CLIFF = GROUND_LEVEL - BLOCKED_LEVEL  # what one level of cliffs adds to the height

Rows = Mapping[tuple[int, int], tuple[tuple[int, int], ...]]
"""Inclusive range of y to the inclusive ranges of x that are pathable in those rows."""

PATHABLE: Mapping[str, Rows] = {
    "field": {(7, 24): ((2, 29),)},
    "open": {(2, 29): ((2, 29),)},
    "octagon": {
        (5, 5): ((9, 22),), (6, 6): ((8, 23),), (7, 7): ((7, 24),), (8, 8): ((6, 25),),
        (9, 22): ((5, 26),),
        (23, 23): ((6, 25),), (24, 24): ((7, 24),), (25, 25): ((8, 23),), (26, 26): ((9, 22),),
    },
    "ravine": {
        (5, 5): ((3, 28),), (6, 11): ((2, 29),), (12, 12): ((2, 3), (28, 29)), (13, 18): ((2, 29),),
        (19, 19): ((2, 5), (7, 24), (26, 29)), (20, 20): ((3, 5), (7, 24), (26, 28)),
    },
    "pentagon": {
        (7, 20): ((7, 20),), (21, 21): ((8, 19),), (22, 22): ((9, 18),), (23, 23): ((10, 17),),
        (24, 24): ((11, 16),),
    },
    "lane": {
        (2, 2): ((2, 9),), (3, 5): ((2, 12),), (6, 6): ((2, 13),), (7, 9): ((2, 16),),
        (10, 10): ((3, 17),),
        (11, 12): ((3, 20),), (13, 13): ((6, 20),), (14, 15): ((7, 20),), (16, 16): ((7, 21),),
        (17, 17): ((8, 26),),
        (18, 18): ((9, 26),), (19, 19): ((12, 26),), (20, 20): ((13, 27),), (21, 22): ((13, 29),),
        (23, 23): ((14, 29),), (24, 24): ((15, 29),), (25, 25): ((18, 29),), (26, 28): ((19, 29),),
        (29, 29): ((20, 29),),
    },
    "corridor": {
        (2, 2): ((2, 14),), (3, 3): ((2, 13),), (4, 9): ((2, 12),), (10, 10): ((2, 13),),
        (11, 11): ((2, 14),),
        (12, 12): ((2, 15),), (13, 13): ((10, 26),), (14, 14): ((11, 27),), (15, 15): ((12, 28),),
        (16, 16): ((12, 29),), (17, 22): ((11, 29),), (23, 23): ((12, 29),), (24, 24): ((13, 29),),
        (25, 25): ((14, 29),), (26, 26): ((15, 29),), (27, 27): ((16, 29),), (28, 28): ((17, 29),),
        (29, 29): ((18, 29),),
    },
    "arena": {
        (7, 7): ((9, 20),), (8, 8): ((8, 21),), (9, 18): ((7, 22),), (19, 19): ((8, 21),),
        (20, 20): ((9, 20),),
    },
    "lite_field": {(8, 23): ((0, 31),)},
    "lite_open": {(3, 28): ((3, 28),)},
    "lite_octagon": {
        (5, 5): ((10, 21),), (6, 6): ((9, 22),), (7, 7): ((8, 23),), (8, 8): ((7, 24),),
        (9, 9): ((6, 25),), (10, 21): ((5, 26),), (22, 22): ((6, 25),),
        (23, 23): ((7, 24),), (24, 24): ((8, 23),), (25, 25): ((9, 22),), (26, 26): ((10, 21),),
    },
    "lite_ravine": {
        (6, 6): ((3, 28),), (7, 7): ((2, 29),), (8, 8): ((1, 30),), (9, 11): ((0, 31),),
        (12, 12): ((0, 3), (28, 31)), (13, 16): ((0, 31),), (17, 17): ((1, 30),),
        (18, 18): ((2, 29),), (19, 19): ((3, 28),),
    },
    "lite_pentagon": {
        (7, 7): ((8, 19),), (8, 19): ((7, 20),), (20, 20): ((8, 19),), (21, 21): ((9, 18),),
        (22, 22): ((10, 17),), (23, 23): ((11, 16),), (24, 24): ((12, 15),),
    },
    "lite_corridor": {
        (1, 1): ((2, 13),), (2, 2): ((1, 13),), (3, 10): ((1, 12),), (11, 11): ((1, 13),),
        (12, 12): ((2, 14),), (13, 13): ((11, 25),), (14, 14): ((12, 26),), (15, 15): ((13, 27),),
        (16, 16): ((13, 28),), (17, 17): ((12, 29),), (18, 21): ((11, 30),), (22, 22): ((12, 30),),
        (23, 23): ((13, 30),), (24, 24): ((14, 30),), (25, 25): ((15, 30),), (26, 26): ((16, 30),),
        (27, 27): ((17, 30),), (28, 28): ((18, 30),), (29, 29): ((19, 30),), (30, 30): ((20, 29),),
    },
}  # fmt: skip
"""The names with ``lite_`` are SMAClite's terrains, the others those of the SMAC maps."""


SLOPES: Mapping[str, tuple[tuple[tuple[int, int, int, int], float, float], ...]] = {
    "ravine": (((7, 24, 13, 20), 1, 1), ((4, 6, 13, 18), 0, 1), ((25, 27, 13, 18), 1, 0)),
}
"""Levels of cells above the low ground, as far as they are known, in rectangles (x from, x to, y
from, y to), inclusive. Ramps rise from their first level to their second along x. The ravine: a
plateau that two side ramps lead up to."""


def pathable_cells(name: str) -> np.ndarray:
    """uint8 [32, 32], indexed [x, y]: 1 where a unit can walk; outside of a picture none can."""
    cells = np.zeros((SIZE, SIZE), np.uint8)
    if "\n" in name:
        for y, line in enumerate(reversed(name.splitlines())):
            cells[: len(line), y] = [cell == "." for cell in line]
        return cells
    for (first, last), ranges in PATHABLE[name].items():
        for x0, x1 in ranges:
            cells[x0 : x1 + 1, first : last + 1] = 1
    return cells


def ground_levels(name: str) -> np.ndarray:
    """float [32, 32]: 0 low ground … 1 the top of a plateau."""
    levels = np.zeros((SIZE, SIZE))
    for (x0, x1, y0, y1), first, second in SLOPES.get(name, ()):
        share = (np.arange(x0, x1 + 1) - x0 + 0.5) / (x1 - x0 + 1)
        levels[x0 : x1 + 1, y0 : y1 + 1] = (first + (second - first) * share)[:, None]
    return levels


def cell_heights(name: str) -> np.ndarray:
    """float32 [32, 32]: terrain height of each cell, 0 … 1."""
    ground = GROUND_LEVEL + CLIFF * ground_levels(name)
    return np.where(pathable_cells(name), ground, BLOCKED_LEVEL).astype(np.float32)


def cells_near_walls(cells: np.ndarray) -> np.ndarray:
    """uint8 [32, 32]: 1 where the cell or one of its eight neighbors is blocked."""
    padded = np.pad(cells, 1)
    free = np.ones_like(cells)
    for dx in range(3):
        for dy in range(3):
            free &= padded[dx : dx + SIZE, dy : dy + SIZE]
    return (1 - free).astype(np.uint8)


def walls_near(cells: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """int64 [32, 32], a set of ``walls`` per cell, bit w for the w-th: those within ``WALL_REACH``
    of the cell; none where it and all cells around it are free."""
    if len(walls) > MAX_WALLS:
        raise ValueError(f"{len(walls)} walls: a set holds {MAX_WALLS}")
    at = np.arange(SIZE)
    sets = np.zeros((SIZE, SIZE), np.int64)
    for w, (ax, ay, bx, by) in enumerate(walls.tolist()):
        gap_x = np.maximum(np.maximum(min(ax, bx) - at - 1, at - max(ax, bx)), 0)[:, None]
        gap_y = np.maximum(np.maximum(min(ay, by) - at - 1, at - max(ay, by)), 0)[None, :]
        sets |= (gap_x**2 + gap_y**2 < WALL_REACH**2).astype(np.int64) << w
    return np.where(cells_near_walls(cells), sets, 0)


def layer_boxes(cells: np.ndarray) -> dict[str, tuple[int, int, int, int]]:
    """For ground, air and colossi the rectangle (x0, y0, x1, y1) they stay in.

    Walls keep ground units; colossi step over cliffs, so only the outline of the terrain keeps
    them; air units have the whole map.
    """
    x, y = np.nonzero(cells)
    outline = int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1
    return {"ground": outline, "air": (0, 0, SIZE, SIZE), "colossus": outline}


def wall_segments(cells: np.ndarray) -> np.ndarray:
    """float32 [W, 4]: straight walls (ax, ay, bx, by) around the pathable cells, free side on the
    left of a → b."""
    padded = np.pad(cells, 1).astype(bool)
    walls: list[tuple[float, float, float, float]] = []
    for line in range(SIZE + 1):
        # rows of cells on both sides of y = line, columns on both sides of x = line
        below, above = padded[1:-1, line], padded[1:-1, line + 1]
        left, right = padded[line, 1:-1], padded[line + 1, 1:-1]
        walls += [(a, line, b, line) for a, b in _runs(above & ~below)]
        walls += [(b, line, a, line) for a, b in _runs(below & ~above)]
        walls += [(line, b, line, a) for a, b in _runs(right & ~left)]
        walls += [(line, a, line, b) for a, b in _runs(left & ~right)]
    return np.array(walls, np.float32).reshape(-1, 4)


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """Maximal runs [a, b) of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


@cache
def next_cells(terrain: str) -> np.ndarray:
    """int16 [1024, 1024]: from cell x * 32 + y toward another one, the cell to head for in a
    straight line: the destination itself if the walk is clear. [0, 0] on a rectangular terrain,
    where every walk is.

    A straight walk between two cells is clear if a square of one cell moved from one to the other
    touches no blocked cell; a shortest path is a chain of clear walks that bends only at cells near
    walls. A blocked destination stands for the pathable cell nearest to it.
    """
    cells = pathable_cells(terrain)
    free, blocked = np.flatnonzero(cells), np.flatnonzero(cells == 0)
    x, y = np.divmod(free, SIZE)
    if len(free) == (np.ptp(x) + 1) * (np.ptp(y) + 1):
        return np.zeros((0, 0), np.int16)
    length, following = _shortest_ways(cells, free, x, y)
    table = np.tile(np.arange(SIZE * SIZE, dtype=np.int16), (SIZE * SIZE, 1))
    table[free[:, None], free] = free[following]
    rows = np.arange(len(free))
    for cell in blocked:
        gap = np.hypot(x - cell // SIZE, y - cell % SIZE)
        near = np.flatnonzero(gap < gap.min() + 0.01)
        stand_in = near[length[:, near].argmin(1)]
        hop = following[rows, stand_in]
        table[free, cell] = np.where(hop == stand_in, cell, free[hop])
    return table


def _shortest_ways(
    cells: np.ndarray, free: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Length [n, n] of the shortest way between pathable cells, and the index of its first bend."""
    clear = _clear_walks(cells, x, y)
    straight = np.hypot(x[:, None] - x, y[:, None] - y)
    length = np.where(clear, straight, np.inf).astype(np.float32)
    following = np.tile(np.arange(len(free)), (len(free), 1))
    for k in np.flatnonzero(cells_near_walls(cells).ravel()[free]):
        through = length[:, k, None] + length[k]
        shorter = through < length - np.float32(1e-4)
        length = np.where(shorter, through, length)
        following = np.where(shorter, following[:, k, None], following)
    return length, following


def _clear_walks(cells: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """bool [n, n]: whether the straight walk between the centers of two pathable cells is clear."""
    at = np.arange(STEPS_PER_CELL * (SIZE - 1) + 1)
    low, high = at // STEPS_PER_CELL, -(-at // STEPS_PER_CELL)
    roomy = cells[low][:, low] & cells[low][:, high] & cells[high][:, low] & cells[high][:, high]
    clear = np.ones((len(x), len(x)), bool)
    for share in np.linspace(0, 1, STEPS_PER_CELL * SIZE):
        px = np.rint(STEPS_PER_CELL * (x[:, None] + share * (x - x[:, None]))).astype(np.intp)
        py = np.rint(STEPS_PER_CELL * (y[:, None] + share * (y - y[:, None]))).astype(np.intp)
        clear &= roomy[px, py].astype(bool)
    return clear & clear.T
