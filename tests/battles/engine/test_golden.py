"""Marine battles are the same bytes as when they were published."""

import hashlib

import numpy as np
import pytest

from rltrain.env.smac.vector import SmacVectorEnv
from tests.battles.conftest import ATTACK, seeds


def aggressive(avail: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[E, A]: random legal actions that mostly attack where an attack is possible."""
    action = (rng.random(avail.shape) * avail).argmax(-1)
    targets = avail[..., ATTACK:]
    attack = targets.any(-1) & (rng.random(action.shape) < 0.7)
    return np.where(attack, ATTACK + targets.argmax(-1), action)


@pytest.mark.parametrize(
    ("map_name", "expected"),
    [("3m", "43cf2d2fd65820a0"), ("8m", "90d3e196ebac4bf3"), ("10m_vs_11m", "d19b25c9b992dfbc")],
)
def test_marine_battles_are_the_published_bytes(map_name: str, expected: str) -> None:
    """The hash is of one machine type: x86-64, where Numba neither fuses nor reorders float32
    operations. Another platform may round square roots or divisions in a row otherwise; then
    compare commits on that platform instead of editing the hash.

    Version 5 of the rules changed all of them: how enemies are numbered is drawn per battle, and
    deep overlaps are separated.
    """
    env, rng = SmacVectorEnv(map_name=map_name, n_envs=4), np.random.default_rng(0)
    env.reset(seeds)
    digest = hashlib.sha256()
    for _ in range(150):
        reward, _ = env.step(aggressive(env.avail_actions, rng))
        for array in (env.obs, reward, env.state):
            digest.update(array.tobytes())
    assert digest.hexdigest()[:16] == expected
