"""Epsilon-greedy exploration; greedy and random choices of actions, and their probabilities."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rltrain.algo.exploration.interface import Exploration
from rltrain.common.number_types import Count, NonNegative, Probability, Real
from rltrain.common.schedule import exponential, linear, piecewise
from rltrain.types import Clock


class EpsilonGreedy(Exploration):
    """Epsilon decays linearly from ``start`` to ``end`` over ``env_steps``, then stays constant."""

    def __init__(self, *, start: Probability, end: Probability, env_steps: Count) -> None:
        self.start, self.end, self.env_steps = start, end, env_steps

    def epsilon(self, clock: Clock) -> float:
        return linear(self.start, self.end, self.env_steps, clock.env_steps)

    # twin: kernels/acting_kernel.py
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
    """Epsilon decays from ``start`` to ``end``, half the distance every ``half_life`` env steps."""

    def __init__(self, *, start: Probability, end: Probability, half_life: Count) -> None:
        super().__init__(start=start, end=end, env_steps=10 * half_life)
        self.half_life = half_life

    def epsilon(self, clock: Clock) -> float:
        return exponential(self.start, self.end, self.half_life, clock.env_steps)


class PiecewiseEpsilon(EpsilonGreedy):
    """Epsilon is piecewise linear through ``points``, pairs [env step, epsilon].

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
    """Constant epsilon, as in tests and with noisy networks."""

    def __init__(self, *, epsilon: Probability) -> None:
        super().__init__(start=epsilon, end=epsilon, env_steps=1)


class PerEnvEpsilon(Exploration):
    """Every environment has its own epsilon, base^(1 + alpha e / (E - 1)) (Ape-X;
    Horgan et al. 2018, section 4.1); a single one has ``base``.
    """

    def __init__(self, *, base: Probability, alpha: NonNegative, n_envs: int) -> None:
        share = np.arange(n_envs) / max(n_envs - 1, 1)
        self.epsilons = (base ** (1 + alpha * share))[:, None]  # [E, 1]

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        return epsilon_greedy(q, available, self._of(len(q)), rng)

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        return likelihood(greedy(q, available), available, action, self._of(len(q)))

    def _of(self, n: int) -> np.ndarray:
        """Epsilons [n, 1]; for observations outside a rollout, in turn."""
        return self.epsilons[np.arange(n) % len(self.epsilons)]

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {"epsilon": float(self.epsilons.mean())}


# twin: kernels/acting_kernel.py
def epsilon_greedy(
    q: np.ndarray, available: np.ndarray, epsilon: float | np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The best available action, or with probability ``epsilon`` (one, or [E, 1]) any available
    one.
    """
    action = greedy(q, available)
    explore(action, available, epsilon, rng)
    return action


# twin: kernels/acting_kernel.py
def greedy(q: np.ndarray, available: np.ndarray) -> np.ndarray:
    """The best available action of q [E, N, A], ties to the lowest: [E, N]."""
    return np.where(available, q, -np.inf).argmax(-1)


# twin: kernels/acting_kernel.py
def explore(
    action: np.ndarray,
    available: np.ndarray,
    epsilon: float | np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Replace each action [E, N], with probability ``epsilon`` (one, or [E, 1]), by a random one of
    the ``available`` actions [E, N, A] bool.
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
    """The probability [E, N] that ``explore`` turns ``planned`` [E, N] into ``action`` [E, N]."""
    n_available = np.maximum(available.sum(-1), 1)
    may = np.take_along_axis(available, action[..., None], -1)[..., 0]
    return (1 - epsilon) * (planned == action) + epsilon * may / n_available


# twin: kernels/acting_kernel.py
def _nth_available(available: np.ndarray, die: np.ndarray) -> np.ndarray:
    """Uniform over the available actions: [X, A] bool and [X] in [0, 1) to [X]; 0 where none is."""
    rank = available.cumsum(-1)  # [X, A]
    nth = (die * rank[:, -1]).astype(np.int64)
    return (rank > nth[:, None]).argmax(-1)
