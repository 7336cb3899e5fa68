"""A trained policy that acts in one environment, on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rltrain.algo.checks import available_or_all, require_observations
from rltrain.algo.own_actions import own_actions
from rltrain.algo.policy import Policy
from rltrain.types import Clock, EnvSpec


class GreedyPolicy:
    """Greedy actions in one environment: ``reset`` at an episode's start, then ``act`` per step.

    Args:
        policy: for one environment.
        spec: sizes.
        step: env step of the checkpoint.
        view: from an observation as the environment gives it to [N, *O]; None: it is so already.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        spec: EnvSpec,
        step: int,
        view: Callable[[Any], np.ndarray] | None,
    ) -> None:
        self.policy, self.spec, self.step, self.view = policy, spec, step, view

    def reset(self) -> None:
        """Begin an episode: hidden state and previous actions are forgotten."""
        self.policy.reset()

    def act(self, obs: Any, avail_actions: Any = None) -> Any:
        """Greedy actions, as the environment numbers them; keeps the hidden state.

        Args:
            obs: [N, *O] as the run stored them (flat numbers, one-hot categories, images with their
                channels first); of a single agent also the observation as its environment gives it.
            avail_actions: [N, A], or [A] of a single agent; None where all actions are available.

        Returns:
            [N]; one action for an observation that came as the environment gives it.

        Raises:
            ValueError: arrays of another shape or type, or values out of range; names which.
        """
        spec = self.spec
        seen, single = self._seen(obs)
        available = available_or_all(avail_actions, (spec.n_agents, spec.n_actions), spec)
        action = self.policy.act(seen[None], available[None], np.zeros(1, np.bool_), Clock())[0]
        own = own_actions(action, spec)
        return (own[0] if own.ndim > 1 else int(own[0])) if single else own

    def _seen(self, obs: Any) -> tuple[np.ndarray, bool]:
        """Observations [N, *O]; and whether one came as a single agent's environment gives it."""
        spec = self.spec
        shape = (spec.n_agents, *spec.obs_shape)
        single = spec.n_agents == 1 and shape_of(obs) != shape
        try:
            given = self._viewed(obs) if single else obs
            return require_observations(given, shape, spec.obs_dtype), single
        except ValueError as error:
            or_single = ", or one observation as the environment gives it" if single else ""
            raise ValueError(
                f"{error} A loaded policy takes an array {shape} as the run stored it{or_single}."
            ) from error

    def _viewed(self, obs: Any) -> np.ndarray:
        """One observation as the environment gives it to [1, *O]."""
        if self.view is None:
            return np.asarray(obs)[None]
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what becomes inf is refused later
                return self.view(obs)
        except Exception as error:  # of a space that gets something else
            raise ValueError(f"observations: {type(error).__name__}: {error}") from error


def shape_of(given: Any) -> tuple[int, ...] | None:
    """The shape of what makes an array of numbers; None of anything else."""
    try:
        return np.shape(given)
    except ValueError:
        return None
