"""Seeds of episodes, in training and in tests."""

from __future__ import annotations

from rltrain.common.seeding import TEST_STREAM, seed_key


class EpisodeSeeder:
    """The seed of episode k of environment e depends on (seed, stream, e, k) alone."""

    def __init__(self, seed: int, stream: int) -> None:
        self.seed, self.stream = seed, stream

    def __call__(self, e: int, k: int) -> int:
        return seed_key(self.seed, self.stream, e, k)


class TestSeeds:
    """Test episode i has seed (seed, TEST_STREAM, i), whatever E is; environment i % E plays it."""

    __test__ = False  # its name looks like a test to pytest

    def __init__(self, seed: int, n_envs: int) -> None:
        self.seed, self.n_envs = seed, n_envs

    def __call__(self, e: int, k: int) -> int:
        return seed_key(self.seed, TEST_STREAM, e + k * self.n_envs)
