"""Gymnasium environments as one-agent copies: spaces, masks, limits, refusals, broken worlds."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from rltrain import main as entry
from rltrain.env.gym import GymnasiumEnv, from_class, gymnasium_env
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import UsageError, WorldError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, EnvSpec


class Scripted(gymnasium.Env):
    """Shows given observations one after the other; remembers seeds and actions."""

    def __init__(
        self,
        space: spaces.Space | None = None,
        shows: list[Any] | None = None,
        actions: spaces.Space | None = None,
        rewards: tuple[float, ...] = (1.0,),
        masks: list[Any] | None = None,
        ends: tuple[str, ...] = (),
    ) -> None:
        self.observation_space = space or spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = actions or spaces.Discrete(3)
        self.shows = shows or [np.zeros(2, np.float32)]
        self.rewards, self.masks, self.ends = rewards, masks, ends
        self.t, self.seeds, self.taken = 0, [], []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        self.seeds.append(seed)
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        reward = self.rewards[self.t % len(self.rewards)]
        end = self.ends[self.t] if self.t < len(self.ends) else ""
        self.t += 1
        obs, info = self._seen()
        return obs, reward, end == "terminated", end == "truncated", info

    def double(self, x: int) -> int:
        return 2 * x

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        info = {} if self.masks is None else {"action_mask": self.masks[self.t % len(self.masks)]}
        return self.shows[self.t % len(self.shows)], info


class Counting(Scripted):
    """Says how many steps were taken."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "metrics": {"score": np.int64(self.t)}}


gymnasium.register("Scripted-v0", entry_point=Scripted)
gymnasium.register("Limited-v0", entry_point=Scripted, max_episode_steps=3)
gymnasium.register(
    "Continuous-v0", entry_point=Scripted, kwargs={"actions": spaces.Box(-1, 1, (2,))}
)
BROKEN_REWARD = {"rewards": (1.0, float("nan"))}
BROKEN_OBS = {"shows": [np.zeros(2, np.float32), np.array([0, np.nan], np.float32)]}
gymnasium.register("BrokenReward-v0", entry_point=Scripted, kwargs=BROKEN_REWARD)


def go(env: GymnasiumEnv, action: int = 0) -> tuple[Any, ...]:
    return env.step(np.array([action]))


DEFAULTS: dict[str, Any] = {
    "training": True,
    "record": False,
    "kwargs": {},
    "time_limit": "bootstrap",
    "max_episode_steps": None,
    "frame_stack": 1,
    "reward_clip": None,
}


def made(id: str, **given: Any) -> SyncVectorEnv:
    return gymnasium_env(id=id, **{"n_envs": 1, **DEFAULTS, **given})


def one_hot(n: int, *at: int) -> list[float]:
    return [float(i in at) for i in range(n)]


HWC = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
SPACES: dict[str, tuple[spaces.Space, Any, tuple[int, ...], str, float, Any]] = {
    # space, what the environment shows, shape, stored type, scale, what is stored
    "box": (spaces.Box(-9, 9, (2,)), [1.5, -2], (2,), "float32", 1, [1.5, -2]),
    "unbounded box": (spaces.Box(-np.inf, np.inf, (1,)), [7], (1,), "float32", 1, [7]),
    "float64 box": (spaces.Box(0, 9, (1,), np.float64), np.array([0.5]), (1,), "float32", 1, [0.5]),
    "scalar box": (spaces.Box(0, 9, ()), np.float32(3), (1,), "float32", 1, [3]),
    "whole box": (spaces.Box(0, 9, (2,), np.int64), np.array([3, 4]), (2,), "float32", 1, [3, 4]),
    "matrix": (spaces.Box(0, 9, (1, 2)), [[3, 4]], (1, 2), "float32", 1, [[3, 4]]),
    "bytes": (
        spaces.Box(0, 255, (2,), np.uint8),
        np.array([9, 255], np.uint8),
        (2,),
        "uint8",
        1 / 255,
        [9, 255],
    ),
    "bits": (
        spaces.Box(0, 1, (2,), np.uint8),
        np.array([0, 1], np.uint8),
        (2,),
        "uint8",
        1,
        [0, 1],
    ),
    "discrete": (spaces.Discrete(4), 2, (4,), "float32", 1, one_hot(4, 2)),
    "discrete from 5": (spaces.Discrete(3, start=5), 6, (3,), "float32", 1, one_hot(3, 1)),
    "multi-binary": (spaces.MultiBinary(3), [1, 0, 1], (3,), "float32", 1, [1, 0, 1]),
    "multi-discrete": (
        spaces.MultiDiscrete([2, 3]),
        np.array([1, 2]),
        (5,),
        "float32",
        1,
        one_hot(5, 1, 4),
    ),
    "tuple": (
        spaces.Tuple((spaces.Discrete(2), spaces.Box(-9, 9, (2,)))),
        (1, np.array([3, 4], np.float32)),
        (4,),
        "float32",
        1,
        [0, 1, 3, 4],
    ),
    "dict": (
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-9, 9, (1, 2))}),
        {"a": np.array([[3, 4]], np.float32), "b": 0},
        (4,),
        "float32",
        1,
        [3, 4, 1, 0],  # by name
    ),
    "picture in a dict": (
        spaces.Dict({"a": spaces.Box(0, 255, (1, 2), np.uint8), "b": spaces.Discrete(2)}),
        {"a": np.array([[51, 255]], np.uint8), "b": 1},
        (4,),
        "float32",
        1,
        [np.float32(51) * np.float32(1 / 255), 1, 0, 1],
    ),
    "grey image": (
        spaces.Box(0, 255, (4, 5), np.uint8),
        HWC[..., 0],
        (1, 4, 5),
        "uint8",
        1 / 255,
        HWC[..., 0][None],
    ),
    "image": (
        spaces.Box(0, 255, (4, 5, 3), np.uint8),
        HWC,
        (3, 4, 5),
        "uint8",
        1 / 255,
        HWC.transpose(2, 0, 1),
    ),
    "image, channels first": (
        spaces.Box(0, 255, (3, 4, 5), np.uint8),
        HWC.transpose(2, 0, 1),
        (3, 4, 5),
        "uint8",
        1 / 255,
        HWC.transpose(2, 0, 1),
    ),
    "grid of bits": (
        spaces.Box(0, 1, (4, 5, 3), np.bool_),
        HWC % 2 == 1,
        (3, 4, 5),
        "uint8",
        1,
        (HWC % 2).transpose(2, 0, 1),
    ),
    "real image": (
        spaces.Box(0, 1, (4, 5, 3)),
        HWC.astype(np.float32),
        (3, 4, 5),
        "float32",
        1,
        HWC.transpose(2, 0, 1),
    ),
}


@pytest.mark.parametrize("kind", SPACES)
def test_observations_become_arrays(kind: str) -> None:
    space, shows, shape, dtype, scale, stored = SPACES[kind]
    env = GymnasiumEnv(Scripted(space, [shows]))
    spec = env.spec
    assert (spec.obs_shape, spec.obs_dtype, spec.obs_scale) == (shape, dtype, scale)
    assert (spec.n_agents, spec.n_actions, spec.state_dim, spec.n_rewards) == (1, 3, 0, 1)
    slot = env.reset(0)
    assert (slot.obs.shape, slot.obs.dtype) == ((1, *shape), dtype)
    np.testing.assert_array_equal(slot.obs[0], stored)
    assert slot.state.shape == (0,)


@pytest.mark.parametrize(
    "space",
    [spaces.Sequence(spaces.Discrete(2)), spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))})],
    ids=["sequence", "dict"],
)
def test_observations_without_a_fixed_shape_are_refused(space: spaces.Space) -> None:
    with pytest.raises(ValueError, match=r"^Scripted has observations .* without a fixed shape"):
        GymnasiumEnv(Scripted(space))


@pytest.mark.parametrize(
    "actions", [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(2)]
)
def test_actions_that_are_not_discrete_are_refused(actions: spaces.Space) -> None:
    with pytest.raises(ValueError, match=r"^Scripted has actions .* values of discrete actions"):
        GymnasiumEnv(Scripted(actions=actions))


def test_actions_count_from_the_first_one_of_their_space() -> None:
    inner = Scripted(actions=spaces.Discrete(2, start=-1))
    env = GymnasiumEnv(inner)
    env.reset(0)
    go(env, 0)
    go(env, 1)
    assert inner.taken == [-1, 0]
    assert all(type(action) is int for action in inner.taken)


def test_all_actions_are_available_where_nothing_is_said() -> None:
    env = GymnasiumEnv(Scripted())
    assert env.reset(0).avail_actions.tolist() == [[1, 1, 1]]


def test_an_action_mask_says_what_is_available() -> None:
    masks = [np.array([1, 0, 1], np.int8), [False, True, False]]
    env = GymnasiumEnv(Scripted(masks=masks))
    slot = env.reset(0)
    assert slot.avail_actions.tolist() == [[1, 0, 1]]
    assert slot.avail_actions.dtype == np.uint8
    assert go(env)[0].avail_actions.tolist() == [[0, 1, 0]]


def test_an_empty_mask_of_a_final_observation_means_nothing() -> None:
    env = GymnasiumEnv(Scripted(masks=[[1, 0, 0], [0, 0, 0]], ends=("terminated",)))
    env.reset(0)
    assert go(env)[0].avail_actions.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("mask", [[0, 0, 0], [1, 1]], ids=str)
def test_a_mask_that_leaves_nothing_to_choose_is_a_broken_world(mask: list[int]) -> None:
    env = GymnasiumEnv(Scripted(masks=[[1, 1, 1], mask]))
    env.reset(7)
    with pytest.raises(RuntimeError, match=r"step 1 .* seed 7 gave the action_mask .* expected 3"):
        go(env)


@pytest.mark.parametrize(
    ("clip", "seen"), [(None, [-3, 0.5, 9]), (1.0, [-1, 0.5, 1]), (4.0, [-3, 0.5, 4])]
)
def test_rewards_are_clipped_only_if_asked_for(clip: float | None, seen: list[float]) -> None:
    env = GymnasiumEnv(Scripted(rewards=(-3, 0.5, 9)), reward_clip=clip)
    env.reset(0)
    rewards = [go(env)[1] for _ in range(3)]
    assert np.concatenate(rewards).tolist() == seen
    assert rewards[0].shape == (1,)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_a_reward_that_is_no_number_names_environment_step_and_seed(bad: float) -> None:
    env = GymnasiumEnv(Scripted(rewards=(1.0, bad)))
    env.reset(41)
    go(env)
    with pytest.raises(RuntimeError, match=r"^Scripted at step 2 .* seed 41 gave the reward"):
        go(env)


def test_an_observation_that_is_no_number_names_environment_step_and_seed() -> None:
    env = GymnasiumEnv(Scripted(**BROKEN_OBS))
    env.reset(41)
    with pytest.raises(RuntimeError, match=r"^Scripted at step 1 .* seed 41 gave the observation"):
        go(env)


def test_the_first_observation_is_looked_at_too() -> None:
    env = GymnasiumEnv(Scripted(shows=[np.array([np.inf, 0], np.float32)]))
    with pytest.raises(RuntimeError, match=r"at step 0 .* gave the observation"):
        env.reset(0)


def test_the_seed_that_is_named_is_the_one_that_was_given() -> None:
    inner = Scripted(rewards=(float("nan"),))
    env = GymnasiumEnv(inner)
    env.reset(2**62 + 5)
    with pytest.raises(RuntimeError, match=rf"seed {inner.seeds[0]} gave"):
        go(env)
    assert inner.seeds == [5]


@pytest.mark.parametrize(("time_limit", "terminated"), [("bootstrap", False), ("terminal", True)])
def test_a_time_limit_ends_an_episode_without_terminating_it(
    time_limit: str, terminated: bool
) -> None:
    env = made("Limited-v0", time_limit=time_limit)
    assert env.spec.max_steps == 3
    env.reset(lambda copy, k: k)
    found = [(env.step(np.zeros((1, 1), int))[1][0], env.last[0]) for _ in range(4)]
    assert found == [(False, False), (False, False), (terminated, True), (False, False)]


def test_the_limit_of_an_environment_can_be_set() -> None:
    env = made("Limited-v0", max_episode_steps=2)
    assert env.spec.max_steps == 2
    env.reset(lambda copy, k: k)
    env.step(np.zeros((1, 1), int))
    env.step(np.zeros((1, 1), int))
    assert env.last.tolist() == [True]


def test_an_environment_without_a_limit_says_so() -> None:
    assert made("Scripted-v0").spec.max_steps is None


def test_termination_counts_where_both_ends_meet() -> None:
    env = made("Limited-v0", kwargs={"ends": ("", "", "terminated")})
    env.reset(lambda copy, k: k)
    for _ in range(3):
        _, terminated = env.step(np.zeros((1, 1), int))
    assert (terminated.tolist(), env.last.tolist()) == ([True], [True])


def test_keywords_reach_the_environment() -> None:
    env = made("Scripted-v0", kwargs={"rewards": (4.0,)})
    env.reset(lambda copy, k: k)
    assert env.step(np.zeros((1, 1), int))[0].tolist() == [[4]]


def test_equal_seeds_give_equal_episodes_and_copies_differ() -> None:
    env = made("CartPole-v1", n_envs=2)
    env.reset(lambda copy, k: 3)
    first = env.obs.copy()
    env.reset(lambda copy, k: 3 + copy)
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(env.obs[0], first[0])
    assert not np.array_equal(env.obs[1], first[1])


def test_frames_are_stacked_by_the_network_not_by_the_environment() -> None:
    env = made("CartPole-v1", frame_stack=4)
    assert (env.spec.obs_shape, env.spec.frame_stack) == ((4,), 4)


def test_call_reaches_the_environment_below_its_wrappers() -> None:
    assert made("Limited-v0", n_envs=2).call("double", 4) == [8, 8]


class Drawn(Scripted):
    """Draws the step of its episode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, **given: Any) -> None:
        super().__init__(**given)
        self.render_mode = render_mode

    def render(self) -> np.ndarray:
        return np.full((2, 2, 3), self.t, np.uint8)


class Blind(Drawn):
    """Lacks what drawing needs."""

    def render(self) -> np.ndarray:
        raise gymnasium.error.DependencyNotInstalled("no pygame, run `pip install pygame`")


gymnasium.register("Drawn-v0", entry_point=Drawn, max_episode_steps=3)
gymnasium.register("Blind-v0", entry_point=Blind)


def test_a_record_has_the_images_and_the_speed_of_the_environment() -> None:
    env = made("Drawn-v0", n_envs=2, record=True)
    env.reset(lambda copy, k: k)
    env.step(np.zeros((2, 1), int))
    ((image,),) = env.render([1])
    assert (env.frames_per_second, image.tolist()) == (20, np.ones((2, 2, 3)).tolist())


@pytest.mark.parametrize(("id", "record"), [("Drawn-v0", False), ("Scripted-v0", True)])
def test_an_environment_that_is_not_drawn_has_no_speed(id: str, record: bool) -> None:
    assert made(id, record=record).frames_per_second is None


def test_what_drawing_lacks_is_said_before_anything_is_played() -> None:
    with pytest.raises(ValueError, match=r"record=true: env\.id=Blind-v0 .*pip install pygame"):
        made("Blind-v0", record=True)


def test_a_task_changes_attributes_from_the_next_episode_on() -> None:
    env = made("CartPole-v1", n_envs=2)
    env.reset(lambda copy, k: k)
    env.call("set_task", {"gravity": 12.0})
    inner = env.envs[0].env.unwrapped
    assert inner.gravity == 9.8
    env.reset(lambda copy, k: k)
    assert inner.gravity == 12.0


def test_an_environment_with_tasks_of_its_own_is_told() -> None:
    env = made("Scripted-v0")
    told = env.envs[0].env.unwrapped.__dict__["told"] = []
    env.envs[0].env.unwrapped.set_task = told.append
    env.call("set_task", "hard")
    env.reset(lambda copy, k: k)
    assert told == ["hard"]


def test_tasks_that_an_environment_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot play the task .*'mass'.*set_task"):
        made("CartPole-v1").call("set_task", {"mass": 1})


def test_a_task_is_part_of_the_state() -> None:
    one, other = made("CartPole-v1"), made("CartPole-v1")
    for env in (one, other):
        env.reset(lambda copy, k: k)
    one.call("set_task", {"gravity": 12.0})
    other.load_state_dict(one.state_dict())
    assert other.envs[0].env.unwrapped.gravity == 12.0


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^env\.id=CartPol-v1 cannot be made: .*gymnasium\.registry"
    ):
        made("CartPol-v1")


def test_a_missing_package_is_refused_with_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in [n for n in sys.modules if n.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ValueError, match=r"LunarLander-v3 cannot be made: .*pip install"):
        made("LunarLander-v3")


def test_a_missing_module_is_refused() -> None:
    with pytest.raises(ValueError, match=r"env\.id=no_such_package:Thing-v0 cannot be made"):
        made("no_such_package:Thing-v0")


def test_a_wrong_keyword_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot be made: .*colour"):
        made("Scripted-v0", kwargs={"colour": 1})


def test_a_module_may_register_its_own_environment(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "walking.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Walking-v0', entry_point='gymnasium.envs.classic_control:CartPoleEnv')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert made("walking:Walking-v0").spec.obs_shape == (4,)


def test_a_class_of_ones_own_needs_no_registration() -> None:
    env = from_class(Scripted, n_envs=2, **DEFAULTS)
    env.reset(lambda copy, k: copy)
    assert env.obs.shape == (2, 1, 2)
    assert env.envs[0].name == "Scripted"


@pytest.mark.parametrize("training", [True, False])
def test_a_maker_that_asks_is_told_what_its_copies_are_for(training: bool) -> None:
    told = []

    def make(training: bool) -> Scripted:
        told.append(training)
        return Scripted()

    from_class(make, n_envs=2, **{**DEFAULTS, "training": training})
    assert told == [training, training]


def test_a_class_of_ones_own_has_the_options_of_others() -> None:
    options = {"kwargs": {"rewards": (5.0,)}, "max_episode_steps": 2, "frame_stack": 3}
    env = from_class(Scripted, n_envs=1, **{**DEFAULTS, **options, "reward_clip": 1.0})
    assert (env.spec.frame_stack, env.spec.max_steps) == (3, 2)
    env.reset(lambda copy, k: copy)
    rewards = [float(env.step(np.zeros((1, 1), np.int64))[0][0, 0]) for _ in range(2)]
    assert rewards == [1, 1]
    assert env.last.all()
    assert env.infos[0]["metrics"] == {"game_return": 10}


def test_what_makes_no_environment_is_refused() -> None:
    with pytest.raises(ValueError, match=r"made int: expected a gymnasium\.Env"):
        from_class(lambda: 3, n_envs=1, **DEFAULTS)


def test_tests_clip_no_rewards() -> None:
    clipped = {"kwargs": {"rewards": (5.0,)}, "reward_clip": 1.0}
    env = made("Scripted-v0", **clipped, training=False)
    env.reset(lambda copy, k: copy)
    assert env.step(np.zeros((1, 1), np.int64))[0].tolist() == [[5]]


class Failing(Scripted):
    """Breaks in its second step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.t == 1:
            raise KeyError("boom")
        return super().step(action)


def test_an_environment_that_fails_is_named_with_step_and_seed() -> None:
    env = GymnasiumEnv(Failing())
    env.reset(41)
    go(env)
    with pytest.raises(RuntimeError, match=r"^Failing at step 2 .* seed 41 failed: KeyError"):
        go(env)


@pytest.mark.parametrize("shown", [np.zeros(3, np.float32), {"a": 1}])
def test_an_observation_of_another_space_names_environment_step_and_seed(shown: Any) -> None:
    env = GymnasiumEnv(Scripted(shows=[np.zeros(2, np.float32), shown]))
    env.reset(41)
    with pytest.raises(RuntimeError, match=r"^Scripted at step 1 .* seed 41 gave the observation"):
        go(env)


def test_a_picture_of_another_size_names_environment_step_and_seed() -> None:
    space = spaces.Box(0, 255, (4, 5, 3), np.uint8)
    env = GymnasiumEnv(Scripted(space, [HWC, HWC[:, :4]]))
    env.reset(41)
    with pytest.raises(RuntimeError, match=r"shape \(3, 4, 4\): expected \(3, 4, 5\)"):
        go(env)


def test_numbers_that_the_environment_counts_are_told_at_the_end() -> None:
    env = GymnasiumEnv(Counting(ends=("", "truncated")))
    env.reset(0)
    assert [go(env)[4] for _ in range(2)] == [{}, {"metrics": {"score": 2.0}}]


class Zeros:
    """Chooses action 0."""

    def act(self, obs: np.ndarray, *rest: Any) -> np.ndarray:
        return np.zeros((len(obs), 1), np.int64)

    def reset(self) -> None:
        """Nothing."""


def test_a_broken_environment_is_a_broken_world() -> None:
    policy: Any = Zeros()
    rollout = Rollout(env=made("BrokenReward-v0"), policy=policy, seeds=lambda copy, k: 6)
    with pytest.raises(WorldError, match=r"BrokenReward-v0 at step 2 .* with seed 6 gave"):
        rollout.collect(5, Clock())


def command(*words: str) -> int:
    entry.exit_codes.clear()
    return entry.run(list(words))


SHORT = ["algo=dqn", "env=gymnasium", "total_env_steps=50", "algo.learning_starts=8"]
SHORT += ["hardware.n_envs=1", "hardware.threads=1", "logger.wandb.mode=disabled"]
SHORT += ["test.episodes=1", "test.interval=1_000", "logger.console=false"]


def test_the_command_leaves_with_4_when_the_environment_breaks(
    monkeypatch: Any, own_folder: Any
) -> None:
    words = [*SHORT, "env.id=BrokenReward-v0"]
    monkeypatch.setattr(sys, "argv", ["rltrain", *words])
    assert command(*words) == 4
    (log,) = own_folder.glob("outputs/*/*/train.log")
    assert "BrokenReward-v0 at step 2" in log.read_text(encoding="utf-8")


def test_the_command_films_what_the_environment_draws(monkeypatch: Any, own_folder: Any) -> None:
    monkeypatch.setenv("PATH", str(own_folder))  # no ffmpeg
    words = [*SHORT, "env.id=Drawn-v0"]
    monkeypatch.setattr(sys, "argv", ["rltrain", *words])
    assert command(*words) == 0
    (run,) = own_folder.glob("outputs/*/*")
    assert command("mode=evaluate", f"checkpoint={run}", "record=true") == 0
    (film,) = run.glob("recordings/*/*.gif")
    with Image.open(film) as shown:
        assert (shown.n_frames, shown.info["duration"]) == (4, 50)  # 3 steps, 20 a second


def test_the_command_refuses_continuous_actions_before_anything_is_written(own_folder: Any) -> None:
    with pytest.raises(UsageError, match=r"Continuous-v0 has actions Box.*Discrete") as e:
        command(*SHORT, "env.id=Continuous-v0")
    assert e.value.exit_code == 2
    assert not list(own_folder.iterdir())


def test_a_spec_is_what_a_checkpoint_can_hold() -> None:
    spec = made("CartPole-v1").spec
    assert spec == EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,), max_steps=500)
