"""Stag hunt, or predator–prey with a penalty for failed catches: the coordination benchmark of
Böhmer et al. (2020) and of weighted QMIX (Rashid et al., 2020), with their rules.

The rules are compiled, for all environments in one call. Their arrays: ``agents`` [E, N, 2] and
``prey`` [E, P, 2] int64, rows and columns; ``free`` [E, N] and ``alive`` [E, P] uint8; ``rng`` [E]
uint64; ``grid`` [E, H, W, 3] float32, positions of agents, stags and hares. The first ``n_stags``
prey are stags.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy import ndarray

from rltrain.common.numba_cache import njit
from rltrain.common.number_types import Cells, Count, Real, Whole
from rltrain.env.drawings import BLUE, GREEN, ORANGE, Piece, draw_grid, grid_drawing
from rltrain.env.games.lockstep import GameEnv
from rltrain.types import Drawing, EnvSpec

RIGHT, DOWN, LEFT, UP, STAY, CATCH = range(6)
N_ACTIONS = 6
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0], [0, 0], [0, 0]])
AGENT = 0


class StagHunt(GameEnv):
    """Agents hunt on a bounded grid: two that catch a stag together get ``reward_stag`` and freeze;
    one alone is penalized. The episode ends when all prey is caught or all agents are frozen.

    Actions: right, down, left, up, stay, catch (next to prey). Observations: agents, stags and
    hares in the surrounding cells; the state is the whole grid.

    Raises:
        ValueError: no prey, or more agents and prey than half the cells.
    """

    frames_per_second = 5.0
    has_drawing = True
    remembers = ("_t", "_agents", "_prey", "_free", "_alive", "_rng")

    def __init__(
        self,
        *,
        n_envs: int,
        n_agents: Count,
        n_stags: Whole,
        n_hares: Whole,
        size: Cells,
        sight: Cells,
        reward_stag: Real,
        reward_hare: Real,
        miscapture: Real,
        time_limit: Literal["bootstrap", "terminal"],
        max_episode_steps: Count,
    ) -> None:
        n_prey = n_stags + n_hares
        least = math.isqrt(2 * (n_agents + n_prey) - 1) + 1
        if n_prey == 0 or size < least:
            needed = f"env.size={least}" if n_prey else "env.n_stags=1"
            raise ValueError(
                f"env=stag_hunt: {n_agents} agents and {n_prey} prey (env.n_stags and "
                f"env.n_hares) on {size} x {size} cells: expected prey, and at most half of the "
                f"cells taken. Increase env.size or the number of prey: type {needed}."
            )
        spec = EnvSpec(
            n_agents=n_agents,
            n_actions=N_ACTIONS,
            obs_shape=((2 * sight + 1) ** 2 * 3,),
            state_dim=size**2 * 3,
            max_steps=max_episode_steps,
            masks_actions=True,
        )
        super().__init__(spec, n_envs, time_limit)
        self._n_stags, self._sight, self._penalty = n_stags, sight, miscapture
        self._limit = max_episode_steps
        self._rewards = np.array([reward_stag, reward_hare])
        self.limits = {
            "_t": (0, max_episode_steps),
            **dict.fromkeys(("_agents", "_prey"), (0, size - 1)),
            **dict.fromkeys(("_free", "_alive"), (0, 1)),
        }
        self._t = np.zeros(n_envs, np.int64)
        self._agents = np.zeros((n_envs, n_agents, 2), np.int64)
        self._prey = np.zeros((n_envs, n_prey, 2), np.int64)
        self._free = np.ones((n_envs, n_agents), np.uint8)
        self._alive = np.ones((n_envs, n_prey), np.uint8)
        self._rng = np.zeros(n_envs, np.uint64)
        self._grid = self.state.reshape(n_envs, size, size, 3)  # a view

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        self._t[envs], self._rng[envs] = 0, seeds
        begin(envs, *self._world(), self._n_stags)
        self._observe()

    def _advance(
        self, action: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        reward, terminated = np.empty(self.n_envs), np.empty(self.n_envs, np.bool_)
        fixed = (self._n_stags, self._rewards, self._penalty)
        advance(action, playing, *self._world(), *fixed, reward, terminated)
        self._t += playing
        self._observe()
        return reward, terminated, (self._t >= self._limit) & ~terminated

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Active agents in blue; free stags in orange, hares in green."""
        forms = (BLUE, True, ""), (ORANGE, False, "S"), (GREEN, False, "H")
        there = [np.argwhere(self._grid[e]) for e in envs]
        pieces = [[Piece(row, column, *forms[k]) for row, column, k in each] for each in there]
        return [[draw_grid(self._grid.shape[1:3], each)] for each in pieces]

    def drawing(self, e: int) -> Drawing:
        """Active agents in blue; free stags in orange, hares in green."""
        kinds = [Piece(0, 0, ORANGE, True, "S", name="stag", team=1)] * self._n_stags
        kinds += [Piece(0, 0, GREEN, True, "H", name="hare", team=1)] * len(self._prey[e])
        agent = Piece(0, 0, BLUE, True, name="agent", team=0)
        pieces = [agent._replace(row=r, column=c) for r, c in self._agents[e]]
        placed = zip(kinds, self._prey[e], strict=False)
        pieces += [kind._replace(row=r, column=c) for kind, (r, c) in placed]
        actions = ["right", "down", "left", "up", "stay", "catch"]
        drawn = grid_drawing(self._grid.shape[1:3], pieces, self._sight, actions=actions)
        there = np.concatenate([self._free[e], self._alive[e]]).astype(np.bool_)
        return drawn._replace(columns={**drawn.columns, "there": there})

    def _world(self) -> tuple[np.ndarray, ...]:
        return self._agents, self._prey, self._free, self._alive, self._rng, self._grid

    def _observe(self) -> None:
        observe(self._agents, self._free, self._grid, self._sight, self.obs, self.avail_actions)


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
