"""Gymnasium environments of one agent: limits, rewards, tasks, broken environments."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rltrain.common.env_values import finite_reward
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.errors import EnvError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, EnvSpec
from tests.env.scripted import BROKEN_OBS, Counting, Scripted, Zeros, fails, go, made

IDLE = np.zeros((1, 1), int)


def begun(id: str, **given: Any) -> Any:
    env = made(id, **given)
    env.reset(lambda i, k: k)
    return env


@pytest.mark.parametrize(
    ("clip", "seen"), [(None, [-3, 0.5, 9]), (1.0, [-1, 0.5, 1]), (4.0, [-3, 0.5, 4])]
)
def test_rewards_are_clipped_only_if_asked_for_and_returns_never(clip, seen):
    """Defect: train/return_mean was that of clipped rewards."""
    kwargs = {"rewards": (-3, 0.5, 9), "ends": ("", "", "truncated")}
    env = made("Scripted-v0", n_envs=2, kwargs=kwargs, reward_clip=clip)
    steps = rollout_of(env).collect(4, Clock())
    assert steps.reward[:3, 0, 0].tolist() == seen
    assert [(episode.episode_return, episode.info) for episode in steps.episodes] == [(6.5, {})] * 2


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300, None, np.zeros(2)])
def test_a_reward_that_is_no_number_names_environment_step_and_seed(bad: Any) -> None:
    of_none = r"one number, such as float\(reward\)"
    says = of_none if bad is None else "expected (a finite|one) number"
    where = "^Scripted at step 2 .* 7 returned the reward"
    fails(Scripted(rewards=(1.0, bad)), f"{where}.*{says}", n_before=1)


NO_NUMBERS = {"1.0": "text", b"1.0": "bytes", None: "NoneType", (1.0,): "tuple", 1j: "complex"}


@pytest.mark.parametrize("bad", NO_NUMBERS, ids=str)
def test_a_reward_of_another_type_names_it(bad: Any) -> None:
    said = rf"expected one number, such as float\(reward\), got {NO_NUMBERS[bad]}\.$"
    with pytest.raises(EnvError, match=said):
        finite_reward(bad, lambda: "it")


def test_the_first_observation_is_looked_at_too() -> None:
    env = GymnasiumEnv(Scripted(shows=[np.array([np.inf, 0], np.float32)]))
    with pytest.raises(EnvError, match=r"at step 0 .* returned the observation"):
        env.reset(0)


def test_the_seed_that_is_named_is_the_one_that_was_given() -> None:
    inner = Scripted(rewards=(float("nan"),))
    env = GymnasiumEnv(inner)
    env.reset(2**62 + 5)
    with pytest.raises(EnvError, match=rf"seed {inner.seeds[0]} returned"):
        go(env)
    assert inner.seeds == [5]


@pytest.mark.parametrize(("time_limit", "terminated"), [("bootstrap", False), ("terminal", True)])
def test_a_time_limit_ends_an_episode_without_terminating_it(time_limit, terminated):
    env = begun("Limited-v0", time_limit=time_limit)
    assert env.spec.max_steps == 3
    found = [(env.step(IDLE)[1][0], env.last[0]) for _ in range(4)]
    assert found == [(False, False), (False, False), (terminated, True), (False, False)]


def test_the_limit_of_an_environment_can_be_set() -> None:
    env = begun("Limited-v0", max_episode_steps=2)
    assert env.spec.max_steps == 2
    for _ in range(2):
        env.step(IDLE)
    assert env.last.tolist() == [True]
    assert made("Scripted-v0").spec.max_steps is None


def test_termination_counts_where_both_ends_meet() -> None:
    env = begun("Limited-v0", kwargs={"ends": ("", "", "terminated")})
    for _ in range(3):
        _, terminated = env.step(IDLE)
    assert (terminated.tolist(), env.last.tolist()) == ([True], [True])


def test_keywords_reach_the_environment_and_tests_clip_no_rewards() -> None:
    given = {"kwargs": {"rewards": (4.0,)}, "reward_clip": 1.0}
    assert begun("Scripted-v0", **given, training=False).step(IDLE)[0].tolist() == [[4]]


def test_equal_seeds_give_equal_episodes_and_environments_differ() -> None:
    env = made("CartPole-v1", n_envs=2)
    env.reset(lambda i, k: 3)
    first = env.obs.copy()
    env.reset(lambda i, k: 3 + i)
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(env.obs[0], first[0])
    assert not np.array_equal(env.obs[1], first[1])


def test_frames_are_stacked_by_the_network_not_by_the_environment() -> None:
    env = made("CartPole-v1", frame_stack=4)
    assert (env.spec.obs_shape, env.spec.frame_stack) == ((4,), 4)


def test_call_reaches_the_environment_below_its_wrappers() -> None:
    assert made("Limited-v0", n_envs=2).call("double", 4) == [8, 8]


def test_a_record_has_the_images_and_the_speed_of_the_environment() -> None:
    env = begun("Drawn-v0", n_envs=2, record=True)
    env.step(np.zeros((2, 1), int))
    ((image,),) = env.render([1])
    assert (env.frames_per_second, image.tolist()) == (20, np.ones((2, 2, 3)).tolist())


@pytest.mark.parametrize(("id", "record"), [("Drawn-v0", False), ("Scripted-v0", True)])
def test_an_environment_that_is_not_drawn_has_no_speed(id: str, record: bool) -> None:
    assert made(id, record=record).frames_per_second is None


def test_a_task_changes_attributes_from_the_next_episode_on() -> None:
    env = begun("CartPole-v1", n_envs=2)
    env.call("set_task", {"gravity": 12.0})
    inner = env.envs[0].env.unwrapped
    assert inner.gravity == 9.8
    env.reset(lambda i, k: k)
    assert inner.gravity == 12.0


def test_an_environment_with_tasks_of_its_own_is_told() -> None:
    env = made("Scripted-v0")
    told = env.envs[0].env.unwrapped.__dict__["told"] = []
    env.envs[0].env.unwrapped.set_task = told.append
    env.call("set_task", "hard")
    env.reset(lambda i, k: k)
    assert told == ["hard"]


def test_an_environment_may_change_the_task_that_it_is_given() -> None:
    env = made("Scripted-v0")
    levels = []
    env.envs[0].env.unwrapped.set_task = lambda task: levels.append(task.pop("level"))
    env.call("set_task", {"level": 3})
    for _ in range(2):
        env.reset(lambda i, k: k)
    assert levels == [3, 3]


def test_what_fails_outside_of_steps_names_the_seed_that_the_environment_got() -> None:
    """Defect: the 63 bits that the seed is made of."""
    env = made("Scripted-v0")
    env.envs[0].env.unwrapped.set_task = [].index
    env.call("set_task", "hard")
    said = r"^Environment 0 in the episode with seed 5: ValueError"
    with pytest.raises(EnvError, match=said):
        env.reset(lambda i, k: 2**40 + 5)


def test_tasks_that_an_environment_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot play the task .*'mass'.*set_task"):
        made("CartPole-v1").call("set_task", {"mass": 1})


def test_a_task_is_part_of_the_state() -> None:
    one, other = begun("CartPole-v1"), begun("CartPole-v1")
    one.call("set_task", {"gravity": 12.0})
    other.load_state_dict(one.state_dict())
    assert other.envs[0].env.unwrapped.gravity == 9.8  # until the open episode ends
    other.reset(lambda i, k: k)
    assert other.envs[0].env.unwrapped.gravity == 12.0


@pytest.mark.parametrize("n_envs", [1, 2, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_restart_keeps_the_task_in_any_number_of_environments(n_envs: int, compiled: bool):
    one = begun("CartPole-v1", n_envs=2)
    one.call("set_task", {"gravity": 12.0})
    for state in (one.state_dict(), one.carried()):
        other = made("CartPole-v1", n_envs=n_envs, compiled=compiled)
        other.restart(state)
        other.reset(lambda i, k: k)
        assert [env.env.unwrapped.gravity for env in other.envs] == [12.0] * n_envs


def test_a_classic_environment_is_drawn_without_a_display(capfd: Any) -> None:
    pytest.importorskip("pygame")
    env = begun("CartPole-v1", record=True)
    ((image,),) = env.render([0])
    assert image.shape == (400, 600, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 2
    assert capfd.readouterr().err == ""  # SDL and pygame say nothing


class Failing(Scripted):
    """Breaks in its second step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.t == 1:
            raise KeyError("boom")
        return super().step(action)


def test_an_environment_that_fails_is_named_with_step_and_seed() -> None:
    fails(Failing(), "^Failing at step 2 .* seed 7 failed: KeyError", n_before=1)


@pytest.mark.parametrize(
    "shown",
    [*BROKEN_OBS["shows"][1:], np.zeros(3, np.float32), {"a": 1}],
    ids=["no number", "another shape", "another space"],
)
def test_a_wrong_observation_names_environment_step_and_seed(shown: Any) -> None:
    env = Scripted(shows=[np.zeros(2, np.float32), shown])
    fails(env, "^Scripted at step 1 .* seed 7 returned the observation")


def test_a_picture_of_another_size_names_environment_step_and_seed() -> None:
    shows = [np.zeros((4, width, 3), np.uint8) for width in (5, 4)]
    env = Scripted(spaces.Box(0, 255, (4, 5, 3), np.uint8), shows)
    fails(env, r"shape \(4, 5, 3\), got uint8 of the shape \(4, 4, 3\)")


def test_numbers_that_the_environment_counts_are_told_at_the_end() -> None:
    env = GymnasiumEnv(Counting(ends=("", "truncated")))
    env.reset(0)
    assert [go(env)[4] for _ in range(2)] == [{}, {"metrics": {"score": 2.0}}]


def rollout_of(env: Any) -> Rollout:
    policy: Any = Zeros()
    return Rollout(env=env, policy=policy, seeds=lambda i, k: 6)


def test_a_broken_environment_is_a_broken_world() -> None:
    with pytest.raises(EnvError, match=r"BrokenReward-v0 at step 2 .* with seed 6 returned"):
        rollout_of(made("BrokenReward-v0")).collect(5, Clock())


def test_a_spec_is_what_a_checkpoint_can_hold() -> None:
    spec = made("CartPole-v1").spec
    given = {"max_steps": 500, "obs_space": {"box": [4], "dtype": "float32"}}
    assert spec == EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,), **given)


@pytest.mark.parametrize(
    ("method", "returned", "match"),
    [
        ("reset", np.zeros(2), r"reset must return \(observation, info\), got array"),
        ("reset", (np.zeros(4), None), "reset must return"),
        ("step", (np.zeros(4), 0.0, True, {}), "step must return .* truncated, info"),
    ],
)
def test_what_reset_and_step_return_is_checked(method, returned, match) -> None:
    """Defect: the number of values was unpacked as it was, with a text about unpacking."""
    env = made("CartPole-v1", compiled=False)
    rollout = rollout_of(env)
    setattr(env.envs[0].env, method, lambda *args, **kwargs: returned)
    with pytest.raises(EnvError, match=match):
        rollout.collect(2, Clock())


@pytest.mark.parametrize(
    ("info", "match"),
    [
        ({"metrics": {"a": [1, 2]}}, r"info\['metrics'\]\['a'\]=\[1, 2\]: expected a number"),
        ({"metrics": {"a": "far"}}, r"info\['metrics'\]\['a'\]='far': expected a number"),
        ({"metrics": {"a": None}}, r"info\['metrics'\]\['a'\]=None: expected a number"),
        ({"metrics": {"a": [1, [2]]}}, r"info\['metrics'\]\['a'\]=\[1, \[2\]\]: expected a number"),
        ({"metrics": [1.0]}, r"info\['metrics'\]=\[1.0\]: expected a dictionary of numbers"),
        ({"win": np.array([True, False])}, r"info\['win'\]=array.*: expected True or False"),
        ({"win": "yes"}, r"info\['win'\]='yes': expected True or False"),
        ({"win": float("nan")}, r"info\['win'\]=nan: expected True or False"),
    ],
    ids=str,
)
def test_what_an_episode_reports_is_named_where_it_is_something_else(info: Any, match: str) -> None:
    class Reporting(Scripted):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return *super().step(action)[:4], info

    env = Reporting(ends=("terminated",))
    fails(env, rf"Reporting at step 1 .* seed 7 returned {match}")
