"""Rollout: the layout of next-step resets, episodes, seeds, state, its share of environments."""

from typing import Any

import numpy as np
import pytest

from rltrain.assemble.build_ranks import RankRollout
from rltrain.common.seeding import ENV_STREAM, SeedsOfTraining, seed_key
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError
from rltrain.hardware.env_share import split_envs
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock
from tests.hardware.walks import (
    CLOCK,
    Counter,
    Crashing,
    Forgetful,
    Tasked,
    Walk,
    crashing,
    rollout,
)


def test_collected_steps_have_final_steps_between_episodes() -> None:
    steps = rollout(1).collect(7, CLOCK)  # seed 0: one step, then seed 1: two, then seed 2
    assert steps.obs[:, 0, 0].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1]]
    assert steps.last[:, 0].tolist() == [False, True, False, False, True, False, False]
    assert steps.terminated[:, 0].tolist() == [True, False, False, True, False, False, False]
    assert steps.reward[:, 0, 0].tolist() == [1, 0, 1, 3, 0, 1, 3]  # nothing in a final step
    assert (steps.action[~steps.last[:, 0], 0, 0].tolist(), steps.env_steps) == ([0, 0, 1, 0, 1], 5)
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
            obs, _, *rest = super().step(action)
            return obs, np.array([1.0, 4.0], np.float32), *rest

    (episode,) = rollout(1, Unequal).collect(2, CLOCK).episodes
    assert episode.episode_return == 2.5


def remembering(env: SyncVectorEnv, seeds: Any) -> Rollout:
    return Rollout(env=env, policy=Counter(env.n_envs), seeds=seeds, keeps_hidden=True)


def test_recurrent_states_are_kept_as_they_were_before_each_slot() -> None:
    walks = SyncVectorEnv(make=Walk, n_envs=2)
    steps = remembering(walks, lambda i, k: i + k).collect(7, CLOCK)
    assert (steps.hidden.shape, steps.hidden.dtype) == ((7, 2, 2, 1), np.float32)
    assert steps.hidden[:, 0, 0, 0].tolist() == [0, 1, 0, 1, 2, 0, 1]  # final steps end it
    assert steps.hidden[:, 1, 1, 0].tolist() == [0, 1, 2, 0, 1, 2, 3]


def test_recurrent_states_go_on_in_the_next_collect() -> None:
    r = remembering(SyncVectorEnv(make=Walk, n_envs=1), lambda i, k: 3)
    found = [r.collect(2, CLOCK).hidden for _ in range(3)]
    assert [h[:, 0, 0, 0].tolist() for h in found if h is not None] == [[0, 1], [2, 3], [4, 0]]
    assert rollout(2).collect(3, CLOCK).hidden is None, "not kept unless asked for"


def test_a_collection_cut_short_keeps_as_many_recurrent_states_as_slots() -> None:
    r = remembering(Crashing({2}), lambda i, k: 3)
    first, second = r.collect(8, CLOCK), r.collect(3, CLOCK)
    assert first.hidden is not None
    assert second.hidden is not None
    assert len(first.hidden) == len(first.last) == 3
    assert second.hidden[0, :, 0, 0].tolist() == [3, 0]  # environment 1 begins again


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


def test_seeds_of_training_are_keyed_by_environment_and_episode() -> None:
    seeds = SeedsOfTraining(3)
    assert seeds(2, 5) == seed_key(3, ENV_STREAM, 2, 5)
    found = {SeedsOfTraining(s)(e, k) for s in (0, 1) for e in (0, 1) for k in (0, 1)}
    assert len(found) == 8


def test_an_environment_plays_the_same_episodes_whatever_their_number() -> None:
    few, many = (rollout(n, seeds=SeedsOfTraining(0)).collect(30, CLOCK) for n in (2, 5))
    np.testing.assert_array_equal(few.obs, many.obs[:, :2])


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


@pytest.mark.parametrize("begin", ["load_state_dict", "restart", "restart of a rank"])
@pytest.mark.parametrize("moment", ["at first", "in an episode", "abandoned"])
def test_tasks_outlive_a_checkpoint_of_any_moment(begin: str, moment: str) -> None:
    one, other = rollout(2, Tasked), rollout(2, Tasked)
    if moment != "at first":
        one.collect(3, CLOCK)
    one.call("set_task", 5)
    if moment == "abandoned":
        one.abandon(9)
    if begin == "load_state_dict":
        other.load_state_dict(one.state_dict())
    else:
        if begin == "restart of a rank":
            env = SyncVectorEnv(make=Tasked, n_envs=3)
            other = RankRollout(env=env, policy=Counter(3), seeds=lambda i, k: k)
        other.restart(one.state_dict(), 9)
    other.collect(3, CLOCK)
    assert set(other.call("get_task")) == {5}


def test_call_reaches_the_copies() -> None:
    r = rollout(2)
    r.collect(1, CLOCK)
    assert r.call("state_dict") == [{"seed": 0, "t": 1}, {"seed": 1, "t": 1}]


def test_a_lost_episode_ends_the_collect_and_is_disowned_by_the_next() -> None:
    r = crashing(2)
    first, second = r.collect(8, CLOCK), r.collect(8, CLOCK)
    assert [len(first.last), len(second.last)] == [3, 8]
    assert {len(a) for k, a in vars(first).items() if hasattr(a, "ndim") and a.ndim > 1} == {3}
    assert (first.lost.tolist(), second.lost.tolist()) == ([False, False], [False, True])
    assert second.obs[0, :, 0, 1].tolist() == [3, 0]  # environment 0 continues, 1 began again
    assert second.action[0, :, 0].tolist() == [0, 0]  # as does the policy there
    assert [(e.length, e.episode_return) for e in second.episodes[:2]] == [(4, 13), (4, 13)]


def test_the_policy_forgets_an_environment_that_lost_its_episode() -> None:
    """The first action after two steps would be 2 if it went on."""
    r = crashing(1)
    first, second = r.collect(8, CLOCK), r.collect(8, CLOCK)
    assert (len(first.last), second.action[0, :, 0].tolist()) == (2, [2, 0])


def test_the_policy_begins_again_where_an_environment_cannot_continue() -> None:
    r, other = rollout(2, Forgetful), rollout(2, Forgetful)
    r.collect(2, CLOCK)
    state = r.state_dict()
    state["policy"]["count"][:] = 2
    other.load_state_dict(state)
    assert other.collect(1, CLOCK).action.ravel().tolist() == [0] * 4


def test_what_an_environment_pays_in_a_final_step_is_no_part_of_a_return() -> None:
    class Paying(SyncVectorEnv):
        def step(self, action: Any) -> Any:
            last = self.last.copy()
            reward, terminated = super().step(action)
            reward[last] = 100
            return reward, terminated

    r = Rollout(env=Paying(make=Walk, n_envs=2), policy=Counter(2), seeds=lambda i, k: i + k)
    found, expected = r.collect(12, CLOCK), rollout(2).collect(12, CLOCK)
    assert (found.reward == 100).any()
    ours, theirs = ([e.episode_return for e in x.episodes] for x in (found, expected))
    assert ours == theirs


def test_a_broken_world_keeps_its_own_words() -> None:
    class Broken(SyncVectorEnv):
        def reset(self, seeds: Any) -> None:
            raise EnvError("nothing works here")

    r = Rollout(env=Broken(make=Walk, n_envs=1), policy=Counter(1), seeds=lambda i, k: k)
    with pytest.raises(EnvError, match=r"^nothing works here$"):
        r.collect(1, CLOCK)


USES = {
    "reset": lambda r: r.collect(1, CLOCK),
    "step": lambda r: r.collect(1, CLOCK),
    "call": lambda r: r.call("render"),
    "carried": Rollout.carried,
    "restart": lambda r: r.carry_on({"env": {"task": 1}, "policy": {}}),
    "state_dict": lambda r: (r.collect(1, CLOCK), r.state_dict()),
    "close": Rollout.close,
}


@pytest.mark.parametrize("method", USES)
def test_an_environment_that_ends_the_program_has_failed(method: str) -> None:
    """Defect: in ``carried`` it ended a worker, which could not say why."""

    def broken(*args: object) -> None:
        raise SystemExit("nothing works here")

    env = SyncVectorEnv(make=Walk, n_envs=1)
    vars(env)[method] = broken
    with pytest.raises(EnvError, match=r"^The environment failed.*: nothing works here "):
        USES[method](Rollout(env=env, policy=Counter(1), seeds=lambda i, k: k))


def test_actions_are_stored_as_chosen_whatever_the_environment_does_with_them() -> None:
    class Converting(SyncVectorEnv):
        def step(self, action: Any) -> Any:
            found = super().step(action)
            action -= 1
            return found

    r = Rollout(env=Converting(make=Walk, n_envs=2), policy=Counter(2), seeds=lambda i, k: i + k)
    assert (r.collect(12, CLOCK).action == rollout(2).collect(12, CLOCK).action).all()


@pytest.mark.parametrize(("total", "n_workers"), [(5, 2), (4, 4), (7, 3), (3, 1)])
@pytest.mark.parametrize("n", [1, 4, 5, 6, 17])
def test_every_test_episode_has_one_worker(total, n_workers, n):
    """Environment i % total plays episode i, and its worker counts it."""
    shares = split_envs(total, n_workers)
    assert [e for share in shares for e in range(total)[share.envs]] == list(range(total))
    for share in shares:
        own = [i for i in range(n) if share.first <= i % total < share.first + share.n_envs]
        assert share.test_episodes(n) == len(own)
