"""Greedy and random choices of actions, and their probabilities."""

from __future__ import annotations

import numpy as np


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
