"""A trained policy that acts in one environment, on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rltrain.algo.checks import available_or_all, require_available, require_observations
from rltrain.algo.policy import Policy, own_actions
from rltrain.common.spec_record import by_component, combined
from rltrain.types import Clock, EnvSpec


class AgentsByName(Protocol):
    """Conversion of a team's observations and actions by the names of agents."""

    def whole(self, obs: Any, masks: Any) -> tuple[Mapping[Any, Any], Any] | None: ...

    def joined(self, actions: Mapping[Any, Any]) -> Any: ...

    def seen(
        self, obs: Mapping[Any, object], masks: Mapping[Any, object] | None
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def actions(self, action: np.ndarray, names: Sequence[Any]) -> dict[Any, Any]: ...


@dataclass(kw_only=True, eq=False, repr=False)
class GreedyPolicy:
    """Greedy actions in one environment: ``reset`` at an episode's start, then ``act`` per step.

    Args:
        policy: for one environment.
        spec: sizes.
        step: env step of the checkpoint.
        view: from an observation as the environment returns it to [N, *O]; None: no conversion.
        named: from observations by the names of agents, and to such actions; None: they have none.
    """

    policy: Policy
    spec: EnvSpec
    step: int
    view: Callable[[Any], np.ndarray] | None
    named: AgentsByName | None

    def reset(self) -> None:
        """Begin an episode: hidden state and previous actions are forgotten."""
        self.policy.reset()

    def act(self, obs: Any, avail_actions: Any = None) -> Any:
        """Greedy actions, as the environment numbers them; keeps the hidden state.

        Args:
            obs: [N, *O] as the run stored them (flat numbers, one-hot categories, images with their
                channels first); also the observation as a Gymnasium environment returns it, and
                those of the agents of a PettingZoo environment by name.
            avail_actions: [N, A], or [A] of a single agent, or a tuple of one mask for each
                component of its actions; None where all actions are available; by name for
                observations by name, unless they contain their ``action_mask``.

        Returns:
            [N]; the environment's action for an observation that came as the environment returns
            it, actions by name for observations by name.

        Raises:
            ValueError: arrays of a different shape or type, or values out of range; names which.
        """
        spec, shape = self.spec, (self.spec.n_agents, self.spec.n_actions)
        if self.named is not None:
            actions = self._by_name(self.named, obs, avail_actions)
            if actions is not None:
                return actions
        seen, single = self._seen(obs)
        available = available_or_all(self._combined(avail_actions), shape, spec)
        if spec.action_sizes is not None:  # a row is as long as the largest number of actions
            own = np.arange(spec.n_actions) < np.array(spec.action_sizes)[:, None]
            available = require_available(available & own, shape)
        action = self._chosen(seen, available)
        own = own_actions(action, spec)
        return (own[0] if own.ndim > 1 else int(own[0])) if single else own

    def _by_name(self, named: AgentsByName, obs: Any, masks: Any) -> Any:
        """Actions for observations by name, or as a team's Gymnasium environment returns them; None
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

    def _combined(self, mask: Any) -> Any:
        """A tuple of masks of components, as Gymnasium's spaces have it, as one of combinations."""
        several = self.spec.action_components is not None and by_component(mask)
        return combined(mask) if several else mask

    def _chosen(self, seen: np.ndarray, available: np.ndarray) -> np.ndarray:
        """Action numbers [N] for observations [N, *O] and available actions [N, A]."""
        return self.policy.act(seen[None], available[None], np.zeros(1, np.bool_), Clock())[0]

    def _seen(self, obs: object) -> tuple[np.ndarray, bool]:
        """Observations [N, *O]; and whether one came as a single agent's environment returns it."""
        spec, shape = self.spec, (self.spec.n_agents, *self.spec.obs_shape)
        space, given = spec.obs_space or {}, given_shape(obs)
        whole = "tuple" in space and isinstance(obs, tuple)
        own = space.get("multi_binary", np.shape(space.get("multi_discrete", ())))
        whole |= tuple(own) == given  # also that of one stored row
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
        """One observation as the environment returns it to [1, *O]."""
        if self.view is None:
            return np.asarray(obs)[None]
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what becomes inf is refused later
                return self.view(obs)
        except Exception as error:  # of a space that gets something else
            raise ValueError(f"observations: {type(error).__name__}: {error}") from error


def given_shape(given: Any) -> tuple[int, ...] | None:
    """The shape of what makes an array of numbers; None of anything else."""
    try:
        return np.shape(given)
    except ValueError:
        return None
