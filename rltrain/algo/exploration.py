"""Exploration: values to actions while experience is collected.

A new one has ``choose``, and ``probability``, ``metrics`` and ``ends_at`` if it can say them; it
reads the clock and draws from the policy's own stream.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.common.number_types import (
    Count,
    NonNegative,
    Positive,
    Probability,
    Real,
)
from rltrain.common.schedule import exponential, linear, piecewise
from rltrain.interfaces import optional
from rltrain.types import Clock


class Exploration(Protocol):
    """How values become actions."""

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        """q [E, N, A] and available [E, N, A] bool to actions [E, N] int64."""

    @optional
    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """How likely ``choose`` was to give each of the actions [E, N]; NaN where unknown. Asked
        only when experience is recorded.
        """
        return np.full(action.shape, np.nan)

    @optional
    def metrics(self, clock: Clock) -> dict[str, float]:
        """How much it explores now, for the log."""
        return {}

    @optional
    def ends_at(self) -> int | None:
        """The env step at which it stops changing; None if it never changes."""
        return None


def epsilon_greedy(
    q: np.ndarray, available: np.ndarray, epsilon: float | np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The best available action, or with probability ``epsilon`` (one, or [E, 1]) any available
    one.
    """
    action = greedy(q, available)
    explore(action, available, epsilon, rng)
    return action


def greedy(q: np.ndarray, available: np.ndarray) -> np.ndarray:
    """The best available action of q [E, N, A], the first of equals: [E, N]."""
    return np.where(available, q, -np.inf).argmax(-1)


def explore(
    action: np.ndarray,
    available: np.ndarray,
    epsilon: float | np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Each of the actions [E, N] becomes with probability ``epsilon`` (one, or [E, 1]) a uniformly
    drawn one of the ``available`` [E, N, A] bool.
    """
    coin, die = rng.random((2, *action.shape))
    explores = coin < epsilon
    if explores.any():
        action[explores] = _nth_available(available[explores], die[explores])


def likelihood(
    planned: np.ndarray,
    available: np.ndarray,
    action: np.ndarray,
    epsilon: float | np.ndarray,
) -> np.ndarray:
    """The probability [E, N] that ``explore`` makes the planned actions [E, N] these actions."""
    n_available = np.maximum(available.sum(-1), 1)
    may = np.take_along_axis(available, action[..., None], -1)[..., 0]
    return (1 - epsilon) * (planned == action) + epsilon * may / n_available


def _nth_available(available: np.ndarray, die: np.ndarray) -> np.ndarray:
    """Uniform over the available actions: [X, A] bool and [X] in [0, 1) to [X]; 0 where none is."""
    rank = available.cumsum(-1)  # [X, A]
    nth = (die * rank[:, -1]).astype(np.int64)
    return (rank > nth[:, None]).argmax(-1)


class EpsilonGreedy:
    """Epsilon falls in a straight line from ``start`` to ``end`` over ``env_steps``, then stays."""

    def __init__(self, *, start: Probability, end: Probability, env_steps: Count) -> None:
        self.start, self.end, self.env_steps = start, end, env_steps

    def epsilon(self, clock: Clock) -> float:
        return linear(self.start, self.end, self.env_steps, clock.env_steps)

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        return epsilon_greedy(q, available, self.epsilon(clock), rng)

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        return likelihood(greedy(q, available), available, action, self.epsilon(clock))

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {"epsilon": self.epsilon(clock)}

    def ends_at(self) -> int | None:
        return self.env_steps if self.start != self.end else None


class ExponentialEpsilon(EpsilonGreedy):
    """Epsilon goes from ``start`` to ``end``, half of the way every ``half_life`` env steps."""

    def __init__(self, *, start: Probability, end: Probability, half_life: Count) -> None:
        super().__init__(start=start, end=end, env_steps=10 * half_life)
        self.half_life = half_life

    def epsilon(self, clock: Clock) -> float:
        return exponential(self.start, self.end, self.half_life, clock.env_steps)


class PiecewiseEpsilon(EpsilonGreedy):
    """Epsilon follows straight lines through ``points``: [env step, epsilon] pairs.

    Raises:
        ValueError: fewer than two points, not in order, or an epsilon outside 0 … 1.
    """

    def __init__(self, *, points: list[list[Real]]) -> None:
        pairs = len(points) > 1 and all(len(p) == 2 and 0 <= p[1] <= 1 for p in points)
        if not pairs or any(a[0] >= b[0] for a, b in pairwise(points)):
            raise ValueError(
                "algo.exploration.points: expected two or more [env step, epsilon] pairs in order, "
                f"epsilon from 0 to 1, got {points}. Type for example "
                "algo.exploration.points='[[0,1],[10000,0.1],[100000,0.01]]'."
            )
        super().__init__(start=points[0][1], end=points[-1][1], env_steps=int(points[-1][0]))
        self.points = points

    def epsilon(self, clock: Clock) -> float:
        return piecewise(self.points, clock.env_steps)

    def ends_at(self) -> int | None:
        return self.env_steps


class FixedEpsilon(EpsilonGreedy):
    """The same epsilon always, as in tests and beside noisy networks."""

    def __init__(self, *, epsilon: Probability) -> None:
        super().__init__(start=epsilon, end=epsilon, env_steps=1)


class PerCopyEpsilon:
    """Every environment copy has an epsilon of its own, base^(1 + alpha e / (E - 1)) (Ape-X;
    Horgan et al. 2018, section 4.1); a single copy has ``base``.
    """

    def __init__(self, *, base: Probability, alpha: NonNegative, n_envs: int) -> None:
        share = np.arange(n_envs) / max(n_envs - 1, 1)
        self.epsilons = (base ** (1 + alpha * share))[:, None]  # [E, 1]

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        epsilons = self.epsilons
        if len(q) != len(epsilons):  # other observations than those of the copies
            epsilons = epsilons[np.arange(len(q)) % len(epsilons)]
        return epsilon_greedy(q, available, epsilons, rng)

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        return likelihood(greedy(q, available), available, action, self.epsilons)

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {"epsilon": float(self.epsilons.mean())}

    def ends_at(self) -> int | None:
        return None


class Boltzmann:
    """Actions in proportion to exp(q / temperature) (soft-Q); the temperature falls in a straight
    line from ``start`` to ``end`` over ``env_steps``.
    """

    def __init__(self, *, start: Positive, end: Positive, env_steps: Count) -> None:
        self.start, self.end, self.env_steps = start, end, env_steps

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        temperature = self.temperature(clock)
        # the largest of q / temperature + Gumbel noise is a draw from the softmax
        noise = -np.log(-np.log1p(-rng.random(q.shape)) + 1e-300)
        return np.where(available, q / temperature + noise, -np.inf).argmax(-1)

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        x = np.where(available, q.astype(np.float64) / self.temperature(clock), -np.inf)
        with np.errstate(invalid="ignore"):  # final slots may offer nothing
            weight = np.exp(x - x.max(-1, keepdims=True))
            taken = np.take_along_axis(weight, action[..., None], -1)[..., 0]
            share: np.ndarray = taken / weight.sum(-1)
        return share

    def temperature(self, clock: Clock) -> float:
        return linear(self.start, self.end, self.env_steps, clock.env_steps)

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {"temperature": self.temperature(clock)}

    def ends_at(self) -> int | None:
        return self.env_steps if self.start != self.end else None


class ParameterNoise(EpsilonGreedy):
    """Acts with weights that carry Gaussian noise, drawn anew when copy 0 begins an episode
    (Plappert et al. 2018, appendix C).

    The noise grows or shrinks by 1 % at every draw, so that the noisy agents differ from the others
    as an epsilon of ``start`` … ``end`` over ``env_steps`` would make them: their softmax policies'
    KL divergence, averaged over all steps since the last draw, is held at
    -ln(1 - epsilon + epsilon / A).
    """

    def __init__(
        self, *, start: Probability, end: Probability, env_steps: Count, stddev: Positive
    ) -> None:
        super().__init__(start=start, end=end, env_steps=env_steps)
        self.stddev = stddev
        self.noisy: nn.Module | None = None
        self.divergence, self.n_compared = 0.0, 0  # sum and number of the present noise

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        return greedy(q, available)

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """Unknown: what noise all weights would have needed cannot be counted."""
        return np.full(action.shape, np.nan)

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {**super().metrics(clock), "noise_stddev": self.stddev}

    def perturbed(self, agents: nn.Module, rng: np.random.Generator) -> nn.Module:
        """The agents to act with; the first time they get their first noise."""
        if self.noisy is None:
            self.noisy = copy.deepcopy(agents).requires_grad_(False)
            self._add_noise(self.noisy, agents, rng)
        return self.noisy

    def compare(self, q: np.ndarray, noisy_q: np.ndarray) -> None:
        """Take in how far the values [X, N, A] that were acted on are from those without noise."""
        divergences = divergence(q, noisy_q)
        self.divergence += float(divergences.sum())
        self.n_compared += divergences.size

    def draw(
        self, agents: nn.Module, n_actions: int, clock: Clock, rng: np.random.Generator
    ) -> None:
        """New noise on the present weights; its size follows from what was compared."""
        noisy = self.perturbed(agents, rng)
        if self.n_compared:
            epsilon = self.epsilon(clock)
            bound = -math.log(1 - epsilon + epsilon / n_actions) if epsilon < 1 else math.inf
            mean = self.divergence / self.n_compared
            self.stddev *= 1.01 if mean < bound else 1 / 1.01
        self.divergence, self.n_compared = 0.0, 0
        self._add_noise(noisy, agents, rng)

    def _add_noise(self, noisy: nn.Module, agents: nn.Module, rng: np.random.Generator) -> None:
        with torch.no_grad():
            for weight, clean in zip(noisy.parameters(), agents.parameters(), strict=True):
                noise = rng.standard_normal(tuple(clean.shape), np.float32)
                weight.copy_(clean + self.stddev * torch.from_numpy(noise).to(clean.device))
            for buffer, present in zip(noisy.buffers(), agents.buffers(), strict=True):
                buffer.copy_(present)

    def state_dict(self) -> dict[str, Any]:
        weights = {} if self.noisy is None else self.noisy.state_dict()
        return {
            "stddev": self.stddev,
            "divergence": self.divergence,
            "n_compared": self.n_compared,
            "noisy": {k: v.clone() for k, v in weights.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any], agents: nn.Module) -> None:
        self.stddev, self.divergence = float(state["stddev"]), float(state["divergence"])
        self.n_compared = int(state["n_compared"])
        self.noisy = None
        if state["noisy"]:
            self.noisy = copy.deepcopy(agents).requires_grad_(False)
            self.noisy.load_state_dict(cast(dict[str, Tensor], state["noisy"]))


def divergence(q: np.ndarray, noisy_q: np.ndarray) -> np.ndarray:
    """KL divergence [E, N] of the softmax policies of q and noisy_q, both [E, N, A]."""
    log_p, log_q = (x - np.logaddexp.reduce(x, -1, keepdims=True) for x in (q, noisy_q))
    total: np.ndarray = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return total
