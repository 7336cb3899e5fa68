"""Rollout: the layout of next-step resets, episodes, seeds, tests, state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rltrain.common.seeding import ENV_STREAM, TEST_STREAM, seed_key
from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.errors import EnvError, Interrupted
from rltrain.hardware.episode_seeds import EpisodeSeeder, TestSeeds
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, EnvSpec

CLOCK = Clock()


class Walk:
    """Lasts seed % 4 + 1 steps, shows (seed % 1000, step); the reward is action plus step."""

    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(2,), state_dim=1, n_rewards=2)

    def __init__(self) -> None:
        self.seed, self.t = 0, 0

    def reset(self, seed: int) -> Observation:
        self.seed, self.t = seed, 0
        return self._observation()

    def step(
        self, action: np.ndarray
    ) -> tuple[Observation, np.ndarray, bool, bool, Mapping[str, Any]]:
        self.t += 1
        reward = (action + self.t).astype(np.float32)
        return self._observation(), reward, self.t == self.seed % 4 + 1, False, {"seed": self.seed}

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "t": self.t}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seed, self.t = state["seed"], state["t"]

    def close(self) -> None:
        """Nothing."""

    def _observation(self) -> Observation:
        obs = np.full((2, 2), (self.seed % 1000, self.t), np.float32)
        return Observation(obs, np.ones((2, 3), np.uint8), np.array([self.t], np.float32))


class Forgetful:
    """A walk that cannot tell its state, and no episode is like another of the same seed."""

    spec = Walk.spec
    n_calls = 0

    def __init__(self) -> None:
        self.walk = Walk()
        self.close = self.walk.close

    def reset(self, seed: int) -> Observation:
        Forgetful.n_calls += 1
        return self._other(self.walk.reset(seed))

    def step(self, action: np.ndarray) -> Any:
        seen, *rest = self.walk.step(action)
        return self._other(seen), *rest

    def _other(self, seen: Observation) -> Observation:
        return seen._replace(state=seen.state + Forgetful.n_calls)


class Counter:
    """Chooses by the slots since the episode began; writes the clocks down."""

    def __init__(self, n_envs: int) -> None:
        self.count = np.zeros(n_envs, np.int64)
        self.clocks: list[Clock] = []

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        self.clocks.append(clock)
        action = np.repeat(self.count[:, None] % 3, obs.shape[1], 1)
        self.count = np.where(last, 0, self.count + 1)
        return action

    def reset(self) -> None:
        self.count[:] = 0

    def forget(self, copies: np.ndarray) -> None:
        self.count[copies] = 0

    @property
    def hidden(self) -> np.ndarray:
        """[E, 2, 1]: the slots since the episode began, as an agent might remember them."""
        return np.repeat(self.count[:, None, None], 2, 1).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count = np.array(state["count"])

    def carry_on(self, state: Mapping[str, Any]) -> None:
        pass  # nothing outlives an episode


def rollout(n_envs: int, make: Any = Walk, seeds: Any = lambda copy, k: copy + k) -> Rollout:
    env = SyncVectorEnv(make=make, n_envs=n_envs)
    return Rollout(env=env, policy=Counter(n_envs), seeds=seeds)


def test_a_collect_lays_out_final_slots_between_episodes() -> None:
    steps = rollout(1).collect(7, CLOCK)  # seed 0: one step, then seed 1: two, then seed 2
    assert steps.obs[:, 0, 0].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1]]
    assert steps.last[:, 0].tolist() == [False, True, False, False, True, False, False]
    assert steps.terminated[:, 0].tolist() == [True, False, False, True, False, False, False]
    assert steps.reward[:, 0, 0].tolist() == [1, 0, 1, 3, 0, 1, 3]  # nothing in a final slot
    assert steps.action[~steps.last[:, 0], 0, 0].tolist() == [0, 0, 1, 0, 1]
    assert steps.env_steps == 5
    assert not steps.lost.any()


def test_shapes_and_types_are_those_of_steps() -> None:
    steps = rollout(3).collect(5, CLOCK)
    found = {k: (v.shape, v.dtype.name) for k, v in vars(steps).items() if hasattr(v, "shape")}
    assert found == {
        "obs": ((5, 3, 2, 2), "float32"),
        "avail_actions": ((5, 3, 2, 3), "uint8"),
        "state": ((5, 3, 1), "float32"),
        "last": ((5, 3), "bool"),
        "action": ((5, 3, 2), "int64"),
        "reward": ((5, 3, 2), "float32"),
        "terminated": ((5, 3), "bool"),
        "lost": ((3,), "bool"),
    }


def test_a_later_collect_leaves_earlier_arrays_alone() -> None:
    r = rollout(2)
    first = r.collect(2, CLOCK)
    kept = first.obs.copy()
    r.collect(2, CLOCK)
    np.testing.assert_array_equal(first.obs, kept)


def test_an_episode_is_reported_with_its_final_slot() -> None:
    r = rollout(1)
    assert r.collect(1, CLOCK).episodes == ()
    (episode,) = r.collect(1, CLOCK).episodes
    assert (episode.episode_return, episode.length, episode.info) == (1.0, 1, {"seed": 0})
    (episode,) = r.collect(4, CLOCK).episodes  # its steps lie in two collects
    assert (episode.episode_return, episode.length, episode.info) == (4.0, 2, {"seed": 1})


def test_the_return_is_the_mean_over_reward_streams() -> None:
    class Unequal(Walk):
        def step(self, action: np.ndarray) -> Any:
            slot, _, *rest = super().step(action)
            return slot, np.array([1.0, 4.0], np.float32), *rest

    (episode,) = rollout(1, Unequal).collect(2, CLOCK).episodes
    assert episode.episode_return == 2.5


def remembering(env: SyncVectorEnv, seeds: Any) -> Rollout:
    return Rollout(env=env, policy=Counter(env.n_envs), seeds=seeds, keeps_hidden=True)


def test_recurrent_states_are_kept_as_they_were_before_each_slot() -> None:
    walks = SyncVectorEnv(make=Walk, n_envs=2)
    steps = remembering(walks, lambda copy, k: copy + k).collect(7, CLOCK)
    assert steps.hidden is not None
    assert (steps.hidden.shape, steps.hidden.dtype) == ((7, 2, 2, 1), np.float32)
    assert steps.hidden[:, 0, 0, 0].tolist() == [0, 1, 0, 1, 2, 0, 1]  # final slots end it
    assert steps.hidden[:, 1, 1, 0].tolist() == [0, 1, 2, 0, 1, 2, 3]


def test_recurrent_states_go_on_in_the_next_collect() -> None:
    r = remembering(SyncVectorEnv(make=Walk, n_envs=1), lambda copy, k: 3)
    found = [r.collect(2, CLOCK).hidden for _ in range(3)]
    assert [h[:, 0, 0, 0].tolist() for h in found if h is not None] == [[0, 1], [2, 3], [4, 0]]


def test_recurrent_states_are_not_kept_unless_asked_for() -> None:
    assert rollout(2).collect(3, CLOCK).hidden is None


def test_a_collect_cut_short_keeps_as_many_recurrent_states_as_slots() -> None:
    r = remembering(Crashing({2}), lambda copy, k: 3)
    first, second = r.collect(8, CLOCK), r.collect(3, CLOCK)
    assert first.hidden is not None
    assert second.hidden is not None
    assert len(first.hidden) == len(first.last) == 3
    assert second.hidden[0, :, 0, 0].tolist() == [3, 0]  # copy 1 begins anew


def test_clock_counts_real_transitions_and_finished_episodes() -> None:
    r, clock = rollout(2), CLOCK
    for _ in range(5):
        clock = clock.after(r.collect(3, clock))
    whole = rollout(2).collect(15, CLOCK)
    assert clock.env_steps == 30 - int(whole.last.sum())
    assert clock.episodes == len(whole.episodes) == int(whole.last.sum())


def test_the_policy_reads_the_clock_it_is_given() -> None:
    r = rollout(1)
    r.collect(2, Clock(env_steps=5))
    r.collect(1, Clock(env_steps=7))
    assert [c.env_steps for c in r.policy.clocks] == [5, 5, 7]


def test_episode_seeds_are_keyed_by_stream_copy_and_episode() -> None:
    seeds = EpisodeSeeder(3, ENV_STREAM)
    assert seeds(2, 5) == seed_key(3, ENV_STREAM, 2, 5)
    found = {
        EpisodeSeeder(s, m)(e, k) for s in (0, 1) for m in (0, 1) for e in (0, 1) for k in (0, 1)
    }
    assert len(found) == 16


def test_a_copy_lives_the_same_episodes_whatever_the_number_of_copies() -> None:
    few, many = (rollout(n, seeds=EpisodeSeeder(0, ENV_STREAM)).collect(30, CLOCK) for n in (2, 5))
    np.testing.assert_array_equal(few.obs, many.obs[:, :2])


@pytest.mark.parametrize("n_envs", [1, 3, 8])
def test_test_episode_i_has_seed_i_on_copy_i_modulo_copies(n_envs: int) -> None:
    seeds = TestSeeds(4, n_envs)
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
        r.run_episodes(100, 0, CLOCK, None, stop)
    assert len(asked) == 3
    np.testing.assert_array_equal(r.collect(9, CLOCK).obs, rollout(2).collect(9, CLOCK).obs)


def test_an_episode_that_may_never_end_is_warned_of_once(monkeypatch: Any, caplog: Any) -> None:
    class Endless(Walk):
        def step(self, action: Any) -> Any:
            slot, reward, _, _, info = super().step(action)
            return slot, reward, False, False, info

    monkeypatch.setattr("rltrain.hardware.rollout.LONG", 5)
    env = SyncVectorEnv(make=Endless, n_envs=1)
    r, asked = Rollout(env=env, policy=Counter(1), seeds=lambda copy, k: k), []
    with pytest.raises(Interrupted):
        r.run_episodes(1, 0, CLOCK, None, lambda: asked.append(1) or len(asked) == 20)
    assert caplog.text.count("may never end") == 1


def test_a_collect_after_a_test_starts_afresh() -> None:
    r = rollout(2)
    r.run_episodes(3, 0, CLOCK)
    np.testing.assert_array_equal(r.collect(9, CLOCK).obs, rollout(2).collect(9, CLOCK).obs)


@pytest.mark.parametrize("n_before", [0, 1, 2, 6])
def test_a_loaded_rollout_goes_on_exactly(n_before: int) -> None:
    one, other = rollout(2), rollout(2)
    if n_before:
        one.collect(n_before, CLOCK)
    other.collect(3, CLOCK)
    other.load_state_dict(one.state_dict())
    a, b = one.collect(12, CLOCK), other.collect(12, CLOCK)
    for name in ("obs", "last", "action", "reward", "terminated", "lost"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.episodes == b.episodes


def test_a_state_is_a_copy() -> None:
    r = rollout(2)
    r.collect(2, CLOCK)
    state = r.state_dict()
    lengths = state["lengths"].copy()
    r.collect(1, CLOCK)
    np.testing.assert_array_equal(state["lengths"], lengths)


def test_open_episodes_that_cannot_be_repeated_are_lost_once() -> None:
    one, other = rollout(2, Forgetful), rollout(2, Forgetful)
    one.collect(4, CLOCK)
    other.load_state_dict(one.state_dict())
    again = rollout(2, Forgetful)
    again.load_state_dict(other.state_dict())  # saved before it went on: still lost
    for r in (other, again):
        steps = r.collect(5, CLOCK)
        assert steps.lost.tolist() == [True, True]
        assert steps.obs[0, :, 0, 1].tolist() == [0, 0]  # new episodes
        assert steps.episodes[0].length == int(steps.episodes[0].info["seed"]) % 4 + 1
        assert not r.collect(1, CLOCK).lost.any()


def test_a_state_of_other_copies_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 environments, this run has 3: set hardware"):
        rollout(3).load_state_dict(rollout(2).state_dict())


def test_call_reaches_the_copies() -> None:
    r = rollout(2)
    r.collect(1, CLOCK)
    assert r.call("state_dict") == [{"seed": 0, "t": 1}, {"seed": 1, "t": 1}]


class Crashing(SyncVectorEnv):
    """Walks whose copy 1 crashes in the given steps: its episode begins anew."""

    def __init__(self, crashes: set[int]) -> None:
        super().__init__(make=Walk, n_envs=2)
        self.crashes, self.steps, self.lost = crashes, 0, np.zeros(2, np.bool_)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reward, terminated = super().step(action)
        self.lost[:] = False, self.steps in self.crashes
        self.steps += 1
        if self.lost[1]:
            self._begin(1, int(self._episode[1]))
            reward[1], terminated[1] = 0, False
        return reward, terminated


def crashing(*crashes: int) -> Rollout:
    env = Crashing(set(crashes))
    return Rollout(env=env, policy=Counter(2), seeds=lambda copy, k: 3)  # four steps


def test_a_lost_episode_ends_the_collect_and_is_disowned_by_the_next() -> None:
    r = crashing(2)
    first, second = r.collect(8, CLOCK), r.collect(8, CLOCK)
    assert [len(first.last), len(second.last)] == [3, 8]
    assert {len(a) for k, a in vars(first).items() if hasattr(a, "ndim") and a.ndim > 1} == {3}
    assert (first.lost.tolist(), second.lost.tolist()) == ([False, False], [False, True])
    assert second.obs[0, :, 0, 1].tolist() == [3, 0]  # copy 0 goes on, copy 1 began anew
    assert second.action[0, :, 0].tolist() == [0, 0]  # as does the policy there
    assert [(e.length, e.episode_return) for e in second.episodes[:2]] == [(4, 13), (4, 13)]


def test_a_lost_test_episode_is_played_again() -> None:
    episodes = crashing(1, 4).run_episodes(4, 0, CLOCK)
    assert [e.length for e in episodes] == [e.info["seed"] % 4 + 1 for e in episodes]
    assert [e.info["seed"] for e in episodes] == [seed_key(0, TEST_STREAM, i) for i in range(4)]


def test_a_broken_world_keeps_its_own_words() -> None:
    class Broken(SyncVectorEnv):
        def reset(self, seeds: Any) -> None:
            raise EnvError("nothing works here")

    r = Rollout(env=Broken(make=Walk, n_envs=1), policy=Counter(1), seeds=lambda copy, k: k)
    with pytest.raises(EnvError, match=r"^nothing works here$"):
        r.collect(1, CLOCK)
