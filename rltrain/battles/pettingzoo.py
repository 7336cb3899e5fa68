"""``parallel_env``: a SMAC map as a PettingZoo ParallelEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from rltrain.battles.capability_env import StarCraftCapabilityEnv
from rltrain.battles.data.scenarios import is_scenario
from rltrain.battles.starcraft2_env import StarCraft2Env


class SmacParallelEnv(ParallelEnv):
    """Agents ``marine_0`` …, in SMACv2 ``agent_0`` …; observations are {"observation",
    "action_mask"}; the dead leave the battle. ``map_name`` and options are those of
    ``StarCraft2Env``, in SMACv2 those of ``StarCraftCapabilityEnv``.

    The last step of an episode terminates all agents; at the time limit it truncates instead.
    """

    seed_bits = 64  # that ``reset`` takes

    def __init__(
        self,
        *,
        map_name: str = "8m",
        rules: Literal["sc2", "smaclite"] = "sc2",
        seed: int | None = None,
        **options: Any,
    ) -> None:
        drawn = is_scenario(map_name) or str(map_name).startswith("10gen_")
        make = StarCraftCapabilityEnv if drawn else StarCraft2Env
        self.env = make(map_name=map_name, rules=rules, seed=seed, **options)
        self.metadata = {"name": f"smac_{self.env.map_name}", "render_modes": ["rgb_array"]}
        self.render_mode = "rgb_array"
        row = self.env.map_data
        names = ("agent",) * row.n_agents if row.drawn_from else row.ally_types
        counts = [names[:i].count(name) for i, name in enumerate(names)]
        self.possible_agents = [f"{name}_{k}" for name, k in zip(names, counts, strict=True)]
        self.agents: list[str] = []
        self.state_space = spaces.Box(-np.inf, np.inf, (self.env.get_state_size(),), np.float32)
        size, actions = self.env.get_obs_size(), self.env.n_actions
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": spaces.Box(-np.inf, np.inf, (size,), np.float32),
                    "action_mask": spaces.Box(0, 1, (actions,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(actions) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Dict:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, object], dict[str, object]]:
        """A new episode; ``seed`` determines it and those that follow it."""
        if seed is None:
            self.env.reset()
        else:
            self.env.begin(seed)
        self.agents = list(self.possible_agents)
        return self._observe(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Mapping[str, object], ...]:
        """Actions of the living agents by name; an absent or unavailable one raises
        AssertionError."""
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise AssertionError(f"no action for {missing}: give one for each of {self.agents}")
        chosen = {agent: actions[agent] for agent in self.agents}
        everyone = [chosen.get(agent, 0) for agent in self.possible_agents]
        reward, over, info = self.env.step(everyone)
        present = self.agents
        alive = dict(zip(self.possible_agents, self.env.death_tracker_ally == 0, strict=True))
        timeout = over and bool(self.env.battles.timeout[0])
        terminated = {a: bool((over and not timeout) or not alive[a]) for a in present}
        truncated = {a: bool(timeout and alive[a]) for a in present}
        self.agents = [a for a in present if not (terminated[a] or truncated[a])]
        return (
            self._observe(present),
            dict.fromkeys(present, reward),
            terminated,
            truncated,
            {a: dict(info) for a in present},
        )

    def _observe(self, agents: list[str]) -> dict[str, object]:
        battles = self.env.battles
        each = zip(self.possible_agents, battles.obs[0], battles.avail[0], strict=True)
        return {
            agent: {"observation": obs.copy(), "action_mask": avail.astype(np.int8)}
            for agent, obs, avail in each
            if agent in agents
        }

    def state(self) -> np.ndarray:
        """float32 [S]."""
        return self.env.get_state()

    def render(self) -> np.ndarray:
        """uint8 [H, W, 3]: the current state."""
        return self.env.render()

    def close(self) -> None:
        self.env.close()


parallel_env = SmacParallelEnv
"""As PettingZoo names it: ``parallel_env(map_name="3m")``."""
