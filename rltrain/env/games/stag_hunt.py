"""Stag hunt, or predator–prey with a penalty for failed catches: the coordination benchmark of
Böhmer et al. (2020) and of weighted QMIX (Rashid et al., 2020), with their rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rltrain.common.number_types import Cells, Count, Real, Whole
from rltrain.env.games import stag_hunt_kernel as kernel
from rltrain.env.games.lockstep import GameEnv
from rltrain.env.grid_image import BLUE, GREEN, ORANGE, Piece, draw_grid, grid_drawing
from rltrain.types import Drawing, EnvSpec


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
            n_actions=kernel.N_ACTIONS,
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
        kernel.begin(envs, *self._world(), self._n_stags)
        self._observe()

    def _advance(
        self, action: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        reward, terminated = np.empty(self.n_envs), np.empty(self.n_envs, np.bool_)
        fixed = (self._n_stags, self._rewards, self._penalty)
        kernel.advance(action, playing, *self._world(), *fixed, reward, terminated)
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
        kernel.observe(
            self._agents, self._free, self._grid, self._sight, self.obs, self.avail_actions
        )
