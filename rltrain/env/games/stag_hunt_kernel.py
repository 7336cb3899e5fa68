"""The rules of stag hunt, compiled: all environments in one call.

Arrays over environments: ``agents`` [E, N, 2] and ``prey`` [E, P, 2] int64, rows and columns;
``free`` [E, N] and ``alive`` [E, P] uint8; ``rng`` [E] uint64; ``grid`` [E, H, W, 3] float32,
positions of agents, stags and hares. The first ``n_stags`` prey are stags.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from rltrain.common.numba_cache import njit

RIGHT, DOWN, LEFT, UP, STAY, CATCH = range(6)
N_ACTIONS = 6
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0], [0, 0], [0, 0]])
AGENT = 0


@njit(__file__)
def below(rng: ndarray, e: int, n: int) -> int:
    """A random number from 0 to n - 1 from environment e's stream (splitmix64)."""
    rng[e] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[e]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return int((z >> np.uint64(33)) % np.uint64(n))


@njit(__file__)
def shuffle(rng: ndarray, e: int, order: ndarray) -> None:
    """Write a random permutation into ``order``."""
    for i in range(len(order)):
        j = below(rng, e, i + 1)
        order[i] = order[j]
        order[j] = i


@njit(__file__)
def place(rng: ndarray, e: int, actors: ndarray, grid: ndarray, kind: int) -> None:
    """Put every actor on a random free cell."""
    height, width = grid.shape[1], grid.shape[2]
    for i in range(actors.shape[1]):
        while True:
            row, column = below(rng, e, height), below(rng, e, width)
            if grid[e, row, column].sum() == 0:
                break
        actors[e, i, 0], actors[e, i, 1] = row, column
        grid[e, row, column, kind] = 1


@njit(__file__)
def begin(
    envs: ndarray,
    agents: ndarray,
    prey: ndarray,
    free: ndarray,
    alive: ndarray,
    rng: ndarray,
    grid: ndarray,
    n_stags: int,
) -> None:
    """Start an episode of each environment in ``envs``; ``rng`` holds its seed."""
    for e in envs:
        grid[e], free[e], alive[e] = 0, 1, 1
        place(rng, e, agents, grid, AGENT)
        place(rng, e, prey[:, :n_stags], grid, 1)
        place(rng, e, prey[:, n_stags:], grid, 2)


@njit(__file__)
def blocked(grid: ndarray, e: int, row: int, column: int) -> bool:
    """Whether a cell is outside the grid or occupied."""
    if not (0 <= row < grid.shape[1] and 0 <= column < grid.shape[2]):
        return True
    return grid[e, row, column].sum() > 0


@njit(__file__)
def move(actors: ndarray, e: int, i: int, action: int, grid: ndarray, kind: int) -> None:
    """Take a step, unless the cell is blocked."""
    row, column = actors[e, i, 0], actors[e, i, 1]
    to_row, to_column = row + MOVES[action, 0], column + MOVES[action, 1]
    if not blocked(grid, e, to_row, to_column):
        grid[e, row, column, kind], grid[e, to_row, to_column, kind] = 0, 1
        actors[e, i, 0], actors[e, i, 1] = to_row, to_column


@njit(__file__)
def catches(
    agents: ndarray, prey: ndarray, free: ndarray, action: ndarray, e: int, a: int, p: int
) -> bool:
    """Whether agent a, next to prey p, tries to catch it."""
    rows, columns = agents[e, a, 0] - prey[e, p, 0], agents[e, a, 1] - prey[e, p, 1]
    return free[e, a] == 1 and action[e, a] == CATCH and abs(rows) + abs(columns) == 1


@njit(__file__)
def advance(
    action: ndarray,
    playing: ndarray,
    agents: ndarray,
    prey: ndarray,
    free: ndarray,
    alive: ndarray,
    rng: ndarray,
    grid: ndarray,
    n_stags: int,
    rewards: ndarray,
    penalty: float,
    reward: ndarray,
    terminated: ndarray,
) -> None:
    """One env step: agents move in random order, then prey is caught or moves, in random order.

    A stag is caught by two agents together, a hare by one; these agents are frozen and leave the
    grid. A failed attempt costs ``penalty``. ``rewards``: of a stag and of a hare.
    """
    n_agents, n_prey = agents.shape[1], prey.shape[1]
    order, prey_order = np.empty(n_agents, np.int64), np.empty(n_prey, np.int64)
    possible = np.empty(4, np.int64)
    for e in range(len(agents)):
        reward[e], terminated[e] = 0, False
        if not playing[e]:
            continue
        shuffle(rng, e, order)
        for a in range(n_agents):
            i = order[a]
            if free[e, i] == 1 and action[e, i] < STAY:
                move(agents, e, i, action[e, i], grid, AGENT)
        shuffle(rng, e, prey_order)
        for p in prey_order:
            if alive[e, p] == 0:
                continue
            kind = 1 if p < n_stags else 2
            n = 0
            for a in range(n_agents):
                n += catches(agents, prey, free, action, e, a, p)
            if n >= 3 - kind:
                alive[e, p] = 0
                grid[e, prey[e, p, 0], prey[e, p, 1], kind] = 0
                reward[e] += rewards[kind - 1]
                for a in range(n_agents):
                    if catches(agents, prey, free, action, e, a, p):
                        free[e, a] = 0
                        grid[e, agents[e, a, 0], agents[e, a, 1], AGENT] = 0
                continue
            if n > 0:
                reward[e] += penalty
            n = 0
            for u in range(4):
                if not blocked(grid, e, prey[e, p, 0] + MOVES[u, 0], prey[e, p, 1] + MOVES[u, 1]):
                    possible[n] = u
                    n += 1
            if n > 0:
                move(prey, e, p, possible[below(rng, e, n)], grid, kind)
        terminated[e] = alive[e].sum() == 0 or free[e].sum() == 0


@njit(__file__)
def observe(
    agents: ndarray, free: ndarray, grid: ndarray, sight: int, obs: ndarray, avail: ndarray
) -> None:
    """Write observations [E, N, (2 sight + 1)² · 3] and available actions [E, N, 6].

    An agent sees the cells around it, with outside cells empty; a frozen agent sees nothing and
    can only stay. Moves out of the grid are unavailable; catching is available next to prey.
    """
    height, width = grid.shape[1], grid.shape[2]
    for e in range(len(agents)):
        for a in range(agents.shape[1]):
            obs[e, a] = 0
            avail[e, a] = 0
            avail[e, a, STAY] = 1
            if free[e, a] == 0:
                continue
            k = 0
            for row in range(agents[e, a, 0] - sight, agents[e, a, 0] + sight + 1):
                for column in range(agents[e, a, 1] - sight, agents[e, a, 1] + sight + 1):
                    if 0 <= row < height and 0 <= column < width:
                        obs[e, a, k : k + 3] = grid[e, row, column]
                    k += 3
            for u in range(4):
                row, column = agents[e, a, 0] + MOVES[u, 0], agents[e, a, 1] + MOVES[u, 1]
                if 0 <= row < height and 0 <= column < width:
                    avail[e, a, u] = 1
                    if grid[e, row, column, 1] + grid[e, row, column, 2] > 0:
                        avail[e, a, CATCH] = 1
