"""Test episodes of a rollout: their seeds, order, interruption."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from rltrain.common.seeding import TEST_STREAM, SeedsOfTests, seed_key
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError, Interrupted
from rltrain.hardware.rollout import Rollout
from tests.hardware.walks import CLOCK, Counter, Walk, crashing, rollout

FAILS = seed_key(1, TEST_STREAM, 3)


@pytest.mark.parametrize("n_envs", [1, 3, 8])
def test_test_episode_i_has_seed_i_in_environment_i_modulo_their_number(n_envs: int) -> None:
    seeds = SeedsOfTests(4, n_envs)
    found = [seeds(i % n_envs, i // n_envs) for i in range(20)]
    assert found == [seed_key(4, TEST_STREAM, i) for i in range(20)]


@pytest.mark.parametrize("n_envs", [1, 2, 5, 16])
def test_run_episodes_gives_exactly_those_episodes_in_their_order(n_envs: int) -> None:
    episodes = rollout(n_envs).run_episodes(7, 4, CLOCK)
    seeds = [seed_key(4, TEST_STREAM, i) for i in range(7)]
    assert [e.info["seed"] for e in episodes] == seeds
    assert [e.length for e in episodes] == [s % 4 + 1 for s in seeds]
    # reward at step t (from 1) is (t - 1) % 3 + t for both streams
    returns = [sum((t - 1) % 3 + t for t in range(1, e.length + 1)) for e in episodes]
    assert [e.episode_return for e in episodes] == returns


def test_only_episodes_that_are_collected_need_seeds() -> None:
    env = SyncVectorEnv(make=Walk, n_envs=2)
    r = Rollout(env=env, policy=Counter(2))
    assert r.run_episodes(5, 1, CLOCK) == rollout(2).run_episodes(5, 1, CLOCK)
    with pytest.raises(EnvError, match="a rollout without seeds"):
        r.collect(1, CLOCK)


@pytest.mark.parametrize("place", ["reset", "step", None])
def test_a_test_takes_no_random_numbers_from_training(place: str | None) -> None:
    """Defect: one that an exception ended did, and later tests had others."""

    class Failing(Walk):
        def reset(self, seed: int) -> Any:
            if seed == FAILS and place == "reset":
                raise KeyboardInterrupt
            return super().reset(seed)

        def step(self, action: Any) -> Any:
            if self.seed == FAILS and place == "step":
                raise KeyboardInterrupt
            return super().step(action)

    class Drawing(Counter):
        drawn = 0

        def act(self, *args: Any) -> np.ndarray:
            self.drawn += 1
            return super().act(*args)

        def state_dict(self) -> dict[str, Any]:
            return {**super().state_dict(), "drawn": self.drawn}

        def carry_on(self, state: Any) -> None:
            self.drawn = state["drawn"]

    policy = Drawing(2)
    env = SyncVectorEnv(make=Failing, n_envs=2)
    r = Rollout(env=env, policy=policy, seeds=lambda i, k: i + k)
    first = r.collect(3, CLOCK).obs
    with pytest.raises(KeyboardInterrupt) if place else nullcontext():
        r.run_episodes(5, 1, CLOCK)
    assert policy.drawn == 3
    np.testing.assert_array_equal(r.collect(3, CLOCK).obs, first)


def test_run_episodes_twice_gives_the_same() -> None:
    r = rollout(3)
    assert r.run_episodes(5, 1, CLOCK) == r.run_episodes(5, 1, CLOCK)
    assert r.run_episodes(5, 1, CLOCK) != r.run_episodes(5, 2, CLOCK)


def test_a_test_is_left_in_the_slot_in_which_the_run_is_to_end() -> None:
    r, asked = rollout(2), []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    with pytest.raises(Interrupted):
        r.run_episodes(100, 0, CLOCK, (), stop)
    assert len(asked) == 3
    np.testing.assert_array_equal(r.collect(9, CLOCK).obs, rollout(2).collect(9, CLOCK).obs)


@pytest.mark.parametrize("ending", [0, 1, 2])
def test_an_episode_that_may_never_end_is_warned_of_once(ending, monkeypatch, caplog):
    """Whether it is the first, or comes after others that end."""

    class Endless(Walk):
        episodes = 0

        def reset(self, seed: int) -> Any:
            self.episodes += 1
            return super().reset(seed)

        def step(self, action: Any) -> Any:
            obs, reward, _, _, info = super().step(action)
            return obs, reward, self.episodes <= ending, False, info

    monkeypatch.setattr("rltrain.hardware.rollout.LONG", 5)
    env = SyncVectorEnv(make=Endless, n_envs=1)
    r, asked = Rollout(env=env, policy=Counter(1)), []
    with pytest.raises(Interrupted):
        r.run_episodes(3, 0, CLOCK, (), lambda: asked.append(1) or len(asked) == 20)
    assert caplog.text.count("may never end") == 1


def test_a_collect_after_a_test_starts_afresh() -> None:
    r = rollout(2)
    r.run_episodes(3, 0, CLOCK)
    np.testing.assert_array_equal(r.collect(9, CLOCK).obs, rollout(2).collect(9, CLOCK).obs)


def test_a_lost_test_episode_is_played_again() -> None:
    episodes = crashing(1, 4).run_episodes(4, 0, CLOCK)
    assert [e.length for e in episodes] == [e.info["seed"] % 4 + 1 for e in episodes]
    assert [e.info["seed"] for e in episodes] == [seed_key(0, TEST_STREAM, i) for i in range(4)]
