"""Gymnasium environments as PettingZoo parallel environments: those of several agents, and those
whose one agent has several actions at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from rltrain.common.env_values import flag
from rltrain.common.spec_record import action_parts
from rltrain.env.actions import numbered
from rltrain.env.env_options import Channels
from rltrain.env.spaces import to_record, viewed
from rltrain.env.team.agent_spaces import MASK
from rltrain.env.third_party import RESET, STEP, metadata, unpacked
from rltrain.types import Info

Space = spaces.Space[Any]
Stepped = tuple[dict[str, object], object, dict[str, bool], dict[str, bool], Info]


class GymnasiumTeam(ParallelEnv):
    """Agents ``name_0``, ``name_1``, … in one Gymnasium environment, with these spaces."""

    joint: Literal["tuple", "components"]  # EnvSpec.joint

    def __init__(
        self, env: gymnasium.Env, name: str, seen: Sequence[Space], actions: Sequence[Space]
    ) -> None:
        self.env, self.metadata, self.render_mode = env, {**metadata(env)}, env.render_mode
        self.possible_agents = [f"{name}_{i}" for i in range(len(actions))]
        self.observation_spaces = dict(zip(self.possible_agents, seen, strict=True))
        self.action_spaces = dict(zip(self.possible_agents, actions, strict=True))
        named = self.action_spaces.items()
        self._own = {name: numbered(space, self._name()).own for name, space in named}
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        return self.action_spaces[agent]

    @property
    def unwrapped(self) -> Any:
        """Gymnasium's environment below all wrappers."""
        return self.env.unwrapped

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, object], Info]:
        obs, info = unpacked(self.env.reset(seed=seed), RESET, self._name)
        self.agents = list(self.possible_agents)
        return self._seen(obs), self._infos(info)

    def step(self, actions: dict[str, Any]) -> Stepped:
        """All agents act; one that has left is given its first action."""
        each = [actions[n] if n in actions else own(0) for n, own in self._own.items()]
        is_tuple, dtype = self.joint == "tuple", self.env.action_space.dtype
        happened = self.env.step(tuple(each) if is_tuple else np.array(each, dtype))
        obs, reward, terminated, truncated, info = unpacked(happened, STEP, self._name)
        rewards = self._by_agent(reward, "the reward") if self._has_several(reward) else reward
        ended, cut = self._flags(terminated, "terminated"), self._flags(truncated, "truncated")
        self.agents = [a for a in self.agents if not ended[a] and not cut[a]]
        return self._seen(obs), rewards, ended, cut, self._infos(info)

    def _has_several(self, given: Any) -> bool:
        """Whether it is a value for each agent, not one for all."""
        several = np.size(given) > 1 or np.shape(given)[:1] == (len(self.possible_agents),)
        return several and self.joint == "tuple"

    def _seen(self, obs: object) -> dict[str, object]:
        """The observation of each agent."""
        return self._by_agent(obs, "the observation")

    def render(self) -> object:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _by_agent(self, values: object, what: str) -> dict[str, Any]:
        names = self.possible_agents
        if not isinstance(values, Sequence | np.ndarray) or len(values) != len(names):
            raise ValueError(
                f"{what} is {values!r}: expected a tuple of {len(names)}, one for each of {names}"
            )
        return dict(zip(names, values, strict=True))

    def _flags(self, given: Any, name: str) -> dict[str, bool]:
        """Truth values by agent."""
        each = given if self._has_several(given) else [given] * len(self.possible_agents)
        flags = self._by_agent(each, name)
        return {agent: flag(one, name, lambda: "step()") for agent, one in flags.items()}

    def _name(self) -> str:
        return type(self.unwrapped).__name__

    def _infos(self, info: Info) -> Info:
        """The info for each agent, with its own mask."""
        masks = info.get(MASK)
        names = self.possible_agents
        if masks is None:
            return {name: dict(info) for name in names}
        rows = self._by_agent(masks, f"info['{MASK}']")
        return {name: {**info, MASK: rows[name]} for name in names}


class TupleTeam(GymnasiumTeam):
    """A Gymnasium environment with a Tuple of actions and one of observations, of one agent each.

    Rewards, terminated and truncated are one value for all agents, or one for each.
    ``info["action_mask"]`` has a row for each agent.

    Raises:
        ValueError: the two Tuples have different lengths, or actions are not discrete.
    """

    joint = "tuple"

    def __init__(self, env: gymnasium.Env) -> None:
        actions, seen = env.action_space, env.observation_space
        assert isinstance(actions, spaces.Tuple)
        if not isinstance(seen, spaces.Tuple) or len(seen.spaces) != len(actions.spaces):
            raise ValueError(
                f"{type(env.unwrapped).__name__} has a Tuple of {len(actions.spaces)} action "
                f"spaces, so of as many agents, but the observations {seen}: expected a Tuple of "
                f"{len(actions.spaces)} as well."
            )
        super().__init__(env, "agent", seen.spaces, actions.spaces)


class FactoredActions(GymnasiumTeam):
    """A Gymnasium environment with MultiDiscrete or MultiBinary actions of one agent, as one agent
    for each component: all of them see its observation, which is the state as well unless it is an
    image, and get its reward.

    ``info["action_mask"]`` is a tuple of one mask for each component.

    Args:
        env: the environment.
        channels: the axis of images with their channels.
    """

    joint = "components"

    def __init__(self, env: gymnasium.Env, channels: Channels) -> None:
        parts = action_parts(to_record(env.action_space))
        components = [spaces.Discrete(n, start=first) for n, first in parts]
        super().__init__(env, "component", [env.observation_space] * len(parts), components)
        self._view = viewed(env.observation_space, self._name(), channels)
        self._obs: object = None

    def _seen(self, obs: object) -> dict[str, object]:
        self._obs = obs
        return dict.fromkeys(self.possible_agents, obs)

    def state(self) -> np.ndarray:
        """The observation, once."""
        if len(self._view.shape) > 2:
            raise NotImplementedError
        return self._view.convert(self._obs) * self._view.scale
