"""Keyed random streams: every part of a run has its own, derived from the one seed."""

from __future__ import annotations

import numpy as np

ENV_STREAM, TEST_STREAM, POLICY_STREAM, TEST_POLICY_STREAM, BUFFER_STREAM, NETWORK_STREAM = range(6)
ACTOR_STREAM, NOISE_STREAM, DATASET_STREAM = 6, 7, 8


def seed_key(seed: int, *key: int) -> int:
    """A 63-bit seed for one keyed stream of a run: ``seed_key(seed, stream, env, episode)``."""
    return int(
        np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0] >> np.uint64(1)
    )


def generator(seed: int, *key: int) -> np.random.Generator:
    """A numpy generator of its own for one keyed stream of a run."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
