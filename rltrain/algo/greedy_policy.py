"""A trained policy that acts in one environment, on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rltrain.algo.checks import available_or_all, require_available, require_observations
from rltrain.algo.policy import Policy, own_actions
from rltrain.types import Clock, EnvSpec


class AgentsByName(Protocol):
    """Conversion of a team's observations and actions by the names of agents."""

    def seen(
        self, obs: Mapping[str, object], masks: Mapping[str, object] | None
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def actions(self, action: np.ndarray, names: Sequence[str]) -> dict[str, Any]: ...


@dataclass(kw_only=True, eq=False, repr=False)
class GreedyPolicy:
    """Greedy actions in one environment: ``reset`` at an episode's start, then ``act`` per step.

    Args:
        policy: for one environment.
        spec: sizes.
        step: env step of the checkpoint.
        view: from an observation as the environment gives it to [N, *O]; None: it is so already.
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
                channels first); of a single agent also the observation as its environment gives it,
                of a PettingZoo environment also those of its agents by name.
            avail_actions: [N, A], or [A] of a single agent; None where all actions are available;
                by name for observations by name, unless they contain their ``action_mask``.

        Returns:
            [N]; one action for an observation that came as the environment gives it, actions by
            name for observations by name.

        Raises:
            ValueError: arrays of another shape or type, or values out of range; names which.
        """
        spec, shape = self.spec, (self.spec.n_agents, self.spec.n_actions)
        if self.named is not None and isinstance(obs, Mapping):
            rows, mask = self.named.seen(obs, avail_actions)
            seen = require_observations(rows, rows.shape, spec.obs_dtype)
            return self.named.actions(self._chosen(seen, require_available(mask, shape)), list(obs))
        seen, single = self._seen(obs)
        action = self._chosen(seen, available_or_all(avail_actions, shape, spec))
        own = own_actions(action, spec)
        return (own[0] if own.ndim > 1 else int(own[0])) if single else own

    def _chosen(self, seen: np.ndarray, available: np.ndarray) -> np.ndarray:
        """Action numbers [N] for observations [N, *O] and available actions [N, A]."""
        return self.policy.act(seen[None], available[None], np.zeros(1, np.bool_), Clock())[0]

    def _seen(self, obs: object) -> tuple[np.ndarray, bool]:
        """Observations [N, *O]; and whether one came as a single agent's environment gives it."""
        spec = self.spec
        shape = (spec.n_agents, *spec.obs_shape)
        single = spec.n_agents == 1 and given_shape(obs) != shape
        try:
            given = self._viewed(obs) if single else obs
            return require_observations(given, shape, spec.obs_dtype), single
        except ValueError as error:
            or_single = ", or one observation as the environment gives it" if single else ""
            raise ValueError(
                f"{error} A loaded policy takes an array {shape} as the run stored it{or_single}."
            ) from error

    def _viewed(self, obs: object) -> np.ndarray:
        """One observation as the environment gives it to [1, *O]."""
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
