"""Acting: observations to actions. A new exploration is a class with ``epsilon(clock)``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.schedule import linear
from rltrain.types import Agents, Clock, Count, EnvSpec, Probability, torch_device_of


class Exploration(Protocol):
    def epsilon(self, clock: Clock) -> float:
        """The probability with which an agent acts at random now."""


class EpsilonGreedy:
    """Epsilon falls in a straight line from ``start`` to ``end`` over ``env_steps``, then stays."""

    def __init__(self, *, start: Probability, end: Probability, env_steps: Count) -> None:
        self.start, self.end, self.env_steps = start, end, env_steps

    def epsilon(self, clock: Clock) -> float:
        return linear(self.start, self.end, self.env_steps, clock.env_steps)


class FixedEpsilon:
    """The same epsilon always, as in tests."""

    def __init__(self, *, epsilon: Probability) -> None:
        self._epsilon = epsilon

    def epsilon(self, clock: Clock) -> float:
        return self._epsilon


class Policy:
    """Epsilon-greedy actions of E copies in lock-step; carries what agents remember between slots.

    Args:
        agents: per-agent values (``Agents``).
        exploration: epsilon as a function of the clock.
        spec: sizes.
        n_envs: E.
        rng: this policy's own stream.
    """

    def __init__(
        self,
        *,
        agents: nn.Module,
        exploration: Exploration,
        spec: EnvSpec,
        n_envs: int,
        rng: np.random.Generator,
    ) -> None:
        self.agents = cast(Agents, agents)
        self.exploration, self.rng = exploration, rng
        self._device = torch_device_of(agents)
        shape = (n_envs, spec.n_agents)
        self._hidden = torch.zeros(*shape, self.agents.hidden_dim, device=self._device)
        self._last_action = np.full(shape, -1, np.int64)  # [E, N]

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """Actions of one slot; where ``last`` is set they mean nothing, a new episode begins next.

        Args:
            obs: [E, N, *O].
            avail_actions: [E, N, A], non-zero = may be chosen.
            last: [E] bool.
            clock: read by the exploration.

        Returns:
            [E, N] int64

        Raises:
            RuntimeError: a value is NaN.
        """
        available = avail_actions.astype(bool, copy=False)
        q = self._values(obs)
        if math.isnan(q.max()):
            raise RuntimeError(
                "the agents' values are NaN, so no action can be chosen: "
                "look at learn/grad_norm and lower algo.optimizer.lr."
            )
        action = np.where(available, q, -np.inf).argmax(-1)  # [E, N]
        explore(action, available, self.exploration.epsilon(clock), self.rng)
        self._last_action[:] = action
        if last.any():
            self.forget(last)
        return action

    def _values(self, obs: np.ndarray) -> np.ndarray:
        """[E, N, A]; moves the hidden state on."""
        with torch.inference_mode():
            q, self._hidden = self.agents.step(
                self._tensor(obs).float(), self._tensor(self._last_action), self._hidden
            )
            return q.cpu().numpy()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    @property
    def hidden(self) -> np.ndarray:
        """[E, N, H]: the recurrent state before the coming ``act`` (a copy)."""
        return self._hidden.cpu().numpy().copy()

    def forget(self, copies: np.ndarray) -> None:
        """Start anew in some copies ([E] bool, or their numbers): a new episode begins there."""
        with torch.inference_mode():
            self._hidden[self._tensor(np.asarray(copies))] = 0
        self._last_action[copies] = -1

    def reset(self) -> None:
        """Start anew in every copy."""
        self.forget(np.ones(len(self._last_action), bool))

    def state_dict(self) -> dict[str, Any]:
        """What is carried between slots, and where the random stream is."""
        return {
            "hidden": torch.from_numpy(self.hidden),
            "last_action": torch.from_numpy(self._last_action.copy()),
            "rng": copied(self.rng.bit_generator.state),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` said."""
        self._hidden = state["hidden"].to(self._device, copy=True)
        self._last_action = state["last_action"].numpy().copy()
        self.rng.bit_generator.state = copied(state["rng"])


def explore(
    action: np.ndarray, available: np.ndarray, epsilon: float, rng: np.random.Generator
) -> None:
    """Each of the actions [E, N] becomes with probability ``epsilon`` a uniformly drawn one of the
    ``available`` [E, N, A] bool.
    """
    coin, die = rng.random((2, *action.shape))
    explores = coin < epsilon
    if explores.any():
        action[explores] = _nth_available(available[explores], die[explores])


def _nth_available(available: np.ndarray, die: np.ndarray) -> np.ndarray:
    """Uniform over the available actions: [X, A] bool and [X] in [0, 1) to [X]; 0 where none is."""
    rank = available.cumsum(-1)  # [X, A]
    nth = (die * rank[:, -1]).astype(np.int64)
    return (rank > nth[:, None]).argmax(-1)


def copied(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings, copied: the state of a random stream."""
    return {k: copied(v) if isinstance(v, Mapping) else v for k, v in tree.items()}
