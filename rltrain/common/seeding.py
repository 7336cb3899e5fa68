"""Keyed random streams: each part and episode of a run has its own, derived from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ENV_STREAM, TEST_STREAM, POLICY_STREAM, TEST_POLICY_STREAM, BUFFER_STREAM, NETWORK_STREAM = range(6)
ACTOR_STREAM, NOISE_STREAM, DATASET_STREAM, OPPONENT_STREAM = 6, 7, 8, 9


def seed_key(seed: int, *key: int) -> int:
    """A 63-bit seed for one keyed stream of a run: ``seed_key(seed, stream, env, episode)``."""
    return int(
        np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0] >> np.uint64(1)
    )


def generator(seed: int, *key: int) -> np.random.Generator:
    """A separate NumPy generator for one keyed stream of a run."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def weighted_index(weights: Sequence[float] | np.ndarray, rng: np.random.Generator) -> int:
    """Draw an index with probabilities that are in proportion to ``weights``."""
    ends = np.cumsum(weights)[:-1] / np.sum(weights)
    return int(np.searchsorted(ends, rng.random(), side="right"))


@dataclass(frozen=True)
class SeedsOfTraining:
    """Seeds of episodes by (seed, e, k) alone; environment 0 here is ``first`` of the run."""

    seed: int
    first: int = 0

    def __call__(self, e: int, k: int) -> int:
        return seed_key(self.seed, ENV_STREAM, self.first + e, k)


@dataclass(frozen=True)
class SeedsOfTests:
    """Seeds of test episodes by (e, k): episode i has seed (seed, TEST_STREAM, i), whatever E is;
    environment i % E plays it. Environment 0 here is ``first`` of the E.
    """

    seed: int
    n_envs: int
    first: int = 0

    def __call__(self, e: int, k: int) -> int:
        return seed_key(self.seed, TEST_STREAM, self.number(e, k))

    def number(self, e: int, k: int) -> int:
        """Which of all test episodes it is."""
        return self.first + e + k * self.n_envs
