"""Paths around walls: for every pair of cells the next cell to walk to, computed once per terrain.

A straight walk between two cells is clear if a square of one cell moved from one to the other
touches no blocked cell; a shortest path is a chain of clear walks that bends only at cells near
walls. Nothing here is compiled.
"""

from __future__ import annotations

import functools

import numpy as np

from rltrain.battles.data.map_data import SIZE
from rltrain.battles.data.terrain import cells_near_walls, pathable_cells

STEPS_PER_CELL = 4  # samples of a straight walk


@functools.cache
def next_cells(terrain: str) -> np.ndarray:
    """int16 [1024, 1024]: from cell x * 32 + y toward another one, the cell to head for in a
    straight line: the destination itself if the walk is clear. [0, 0] on a rectangular terrain,
    where every walk is.

    A blocked destination stands for the pathable cell nearest to it.
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
