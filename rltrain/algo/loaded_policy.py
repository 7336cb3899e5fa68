"""A trained policy that acts in one environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rltrain.algo.checks import available_or_all, require_available, require_observations
from rltrain.algo.policy import Policy, own_actions, whole_mask
from rltrain.common.machine.torch_settings import plain_settings
from rltrain.errors import reason
from rltrain.types import Clock, EnvSpec


class AgentsByName(Protocol):
    """Conversion of a team's observations and actions by agent name."""

    def whole(self, obs: object, masks: object) -> tuple[Mapping[Any, object], Any] | None: ...

    def joined(self, actions: Mapping[Any, object]) -> Any: ...

    def seen(
        self, obs: Mapping[Any, object], masks: Mapping[Any, object] | None
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def actions(self, action: np.ndarray, names: Sequence[Any]) -> dict[Any, object]: ...


@dataclass(kw_only=True, eq=False, repr=False)
class GreedyPolicy:
    """Greedy actions in one environment: ``reset`` at an episode's start, then ``act`` per step.

    Args:
        policy: for one environment.
        spec: sizes.
        step: env step of the checkpoint.
        view: converts an observation of the environment to [N, *O]; None: no conversion.
        named: converts observations and actions by agent name; None: agents have no names.
        prepare: called before every ``act``.
    """

    policy: Policy
    spec: EnvSpec
    step: int
    view: Callable[[object], np.ndarray] | None
    named: AgentsByName | None
    prepare: Callable[[], None]

    def reset(self) -> None:
        """Begin an episode: clear the hidden state and previous actions."""
        self.policy.reset()

    @plain_settings()
    def act(self, obs: object, avail_actions: Any = None) -> Any:
        """Return greedy actions of one time step, numbered as in the environment; keeps the hidden
        state. Agents that are missing in observations by name are absent.

        Args:
            obs: [N, *O] as the run stored them (flat numbers, one-hot categories, channel-first
                images), an observation as a Gymnasium environment returns it, or a PettingZoo
                environment's observations by agent name.
            avail_actions: [N, A], or [A] for a single agent, or a tuple of one mask per action
                component; None if all actions are available; by name for observations by name,
                unless they contain an ``action_mask``.

        Returns:
            [N], or the environment's own action for an environment's observation, or actions by
            name for observations by name.

        Raises:
            ValueError: an array has the wrong shape, type or range.
        """
        self.prepare()
        spec, shape = self.spec, (self.spec.n_agents, self.spec.n_actions)
        if self.named is not None:
            actions = self._by_name(self.named, obs, avail_actions)
            if actions is not None:
                return actions
        seen, single = self._seen(obs)
        available = available_or_all(whole_mask(avail_actions, spec), shape, spec)
        if spec.action_sizes is not None:  # rows have the largest number of actions
            own = np.arange(spec.n_actions) < np.array(spec.action_sizes)[:, None]
            available = require_available(available & own, shape)
        action = self._chosen(seen, available)
        own = own_actions(action, spec)
        return (own[0] if own.ndim > 1 else int(own[0])) if single else own

    def _by_name(self, named: AgentsByName, obs: Any, masks: Any) -> object:
        """Actions for observations by name, or as returned by a team's Gymnasium environment; None
        for an array.
        """
        spec = self.spec
        stored = given_shape(obs) == (spec.n_agents, *spec.obs_shape)
        whole = None if stored and not isinstance(obs, tuple) else named.whole(obs, masks)
        if whole is None and not isinstance(obs, Mapping):
            return None
        each, masks = (obs, masks) if whole is None else whole
        rows, mask = named.seen(each, masks)
        seen = require_observations(rows, rows.shape, spec.obs_dtype)
        available = require_available(mask, (spec.n_agents, spec.n_actions))
        actions = named.actions(self._chosen(seen, available), list(each))
        return actions if whole is None else named.joined(actions)

    def _chosen(self, seen: np.ndarray, available: np.ndarray) -> np.ndarray:
        """Action numbers [N] for observations [N, *O] and available actions [N, A]."""
        return self.policy.act(seen[None], available[None], np.zeros(1, np.bool_), Clock())[0]

    def _seen(self, obs: object) -> tuple[np.ndarray, bool]:
        """Observations [N, *O], and whether ``obs`` is as a single-agent environment returns it."""
        spec, shape = self.spec, (self.spec.n_agents, *self.spec.obs_shape)
        space, given = spec.obs_space or {}, given_shape(obs)
        whole = "tuple" in space and isinstance(obs, tuple)
        own = space.get("multi_binary", np.shape(space.get("multi_discrete", ())))
        whole |= tuple(own) == given  # may also be one stored row
        single = spec.n_agents == 1 and (whole or given != shape)
        try:
            if isinstance(obs, Mapping) and not single:
                unnamed = "no agents named by text or whole numbers"
                raise ValueError(f"observations: there are {unnamed}.")
            seen = self._viewed(obs) if single else obs
            return require_observations(seen, shape, spec.obs_dtype), single
        except ValueError as error:
            or_single = ", or one observation as the environment returns it" if single else ""
            raise ValueError(
                f"{error} A loaded policy takes an array {shape} as the run stored it{or_single}."
            ) from error

    def _viewed(self, obs: object) -> np.ndarray:
        """Convert one observation of the environment to [1, *O]."""
        if self.view is None:
            return np.asarray(obs)[None]
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # inf is refused later
                return self.view(obs)
        except Exception as error:  # an observation outside the space
            raise ValueError(f"observations: {reason(error).rstrip('.')}.") from error


def given_shape(given: Any) -> tuple[int, ...] | None:
    """The shape of an array-like; None for anything else."""
    try:
        return np.shape(given)
    except ValueError:
        return None
