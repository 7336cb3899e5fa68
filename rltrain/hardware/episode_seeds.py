"""Seeds of episodes, in training and in tests."""

from __future__ import annotations

from rltrain.common.seeding import TEST_STREAM, seed_key


class EpisodeSeeder:
    """The seed of episode k of environment e depends on (seed, stream, e, k) alone; environment 0
    here is ``first`` of the run.
    """

    def __init__(self, seed: int, stream: int, first: int = 0) -> None:
        self.seed, self.stream, self.first = seed, stream, first

    def __call__(self, e: int, k: int) -> int:
        return seed_key(self.seed, self.stream, self.first + e, k)


class TestSeeds:
    """Test episode i has seed (seed, TEST_STREAM, i), whatever E is; environment i % E plays it.
    Environment 0 here is ``first`` of the E.
    """

    __test__ = False  # its name looks like a test to pytest

    def __init__(self, seed: int, n_envs: int, first: int = 0) -> None:
        self.seed, self.n_envs, self.first = seed, n_envs, first

    def __call__(self, e: int, k: int) -> int:
        return seed_key(self.seed, TEST_STREAM, self.first + e + k * self.n_envs)
