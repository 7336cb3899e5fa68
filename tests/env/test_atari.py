"""Atari environments: lives, game ends, clipping, seeds; on a stand-in for the emulators, and
on the emulators themselves where their package is installed.
"""

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

from rltrain.env import atari
from rltrain.env.atari import ZOOM, AtariVectorEnv

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed"
)
LIVES = 2


class StandIn:
    """Games of ``len(plan)`` steps with two lives: what happens at each step is written down.

    ``plan`` holds (score, event), event one of "", "life", "over"; a step after the end begins the
    next game, as ALE does. Pixels show the step of the game, 0 at its beginning.
    """

    plan: tuple[tuple[int, str], ...] = ((5, ""), (1, "life"), (0, ""), (-3, "over"))

    def __init__(self, game: str, **given: Any) -> None:
        self.n, self.given = given["num_envs"], given
        self.limit = given["max_num_frames_per_episode"] // given["frameskip"]
        self.t, self.lives = np.zeros(self.n, int), np.full(self.n, LIVES)
        self.done = np.zeros(self.n, bool)
        self.seeds: list[Any] = []
        self.actions: list[list[int]] = []
        self.closed = False

    def seen(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        obs = np.zeros((self.n, 1, 84, 84), np.uint8)
        obs[:] = self.t[:, None, None, None]
        return obs, {"lives": self.lives.astype(np.int32)}

    def reset(self, *, seed: Any, options: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        mask = options["reset_mask"]
        self.seeds.append((mask.tolist(), None if seed is None else seed.tolist()))
        self.t[mask], self.lives[mask], self.done[mask] = 0, LIVES, False
        return self.seen()

    def step(self, action: np.ndarray) -> tuple[Any, ...]:
        self.actions.append(action.tolist())
        score, terminated, truncated = (np.zeros(self.n, t) for t in (np.int32, bool, bool))
        for copy in range(self.n):
            if self.done[copy]:
                self.t[copy], self.lives[copy], self.done[copy] = 0, LIVES, False
                continue
            score[copy], event = self.plan[self.t[copy] % len(self.plan)]
            self.t[copy] += 1
            if event:
                self.lives[copy] -= 1
                terminated[copy] = event == "over" or self.given["life_loss_info"]
            truncated[copy] = self.t[copy] >= self.limit and not terminated[copy]
            self.done[copy] = event == "over" or truncated[copy]
        obs, info = self.seen()
        return obs, score, terminated, truncated, info

    def close(self) -> None:
        self.closed = True


def made(game: str = "pong", **given: Any) -> AtariVectorEnv:
    values: dict[str, Any] = {
        **{"n_envs": 1, "n_threads": 1, "training": True, "frame_stack": 4, "frame_skip": 4},
        **{"noop_max": 30, "sticky_action_prob": 0.0, "full_action_set": False},
        **{"terminal_on_life_loss": True, "reward_clip": 1.0},
        **{"time_limit": "bootstrap", "max_episode_steps": 1_000},
    }
    return AtariVectorEnv(game=game, **{**values, **given})


@pytest.fixture
def stand_in(monkeypatch: Any) -> None:
    """Actions of the game: NOOP, FIRE, RIGHT."""
    monkeypatch.setattr(atari, "emulators", lambda *a, **k: (StandIn(*a, **k), [0, 1, 3]))


def seeds(copy: int, k: int) -> int:
    return 100 + 10 * copy + k


def begun(**given: Any) -> AtariVectorEnv:
    env = made(**given)
    env.reset(seeds)
    return env


def play(env: AtariVectorEnv, n: int) -> list[tuple[int, float, bool, bool]]:
    """(pixel, reward, terminated, last) of copy 0 after each of n steps with action 2."""
    out = []
    for _ in range(n):
        reward, terminated = env.step(np.full((env.n_envs, 1), 2))
        out.append((int(env.obs[0].max()), reward[0, 0].item(), bool(terminated[0]), env.last[0]))
    return out


ON, OVER = (False, False), (True, True)


@pytest.mark.usefixtures("stand_in")
class TestLives:
    def test_a_lost_life_closes_an_episode_and_the_game_goes_on(self) -> None:
        # a life, the next episode's first step, the game
        found = [(1, 1, *ON), (2, 1, *OVER), (3, 0, *ON), (4, -1, *OVER), (0, 0, *ON)]
        assert play(begun(), 5) == found

    def test_fire_is_pressed_between_lives(self) -> None:
        env = begun()
        play(env, 3)
        assert env._ale.actions == [[2], [2], [1]]

    def test_tests_see_whole_games_and_raw_scores(self) -> None:
        found = [(1, 5, *ON), (2, 1, *ON), (3, 0, *ON), (4, -3, *OVER), (0, 0, *ON)]
        assert play(begun(training=False), 5) == found

    def test_lives_and_clipping_can_be_left_alone_in_training(self) -> None:
        env = begun(terminal_on_life_loss=False, reward_clip=None)
        assert [x[1:] for x in play(env, 2)] == [(5, False, False), (1, False, False)]

    def test_only_finished_games_tell_their_score(self) -> None:
        env = begun()
        play(env, 2)
        assert env.infos[0] == {}
        play(env, 2)
        assert env.infos[0] == {"metrics": {"game_return": 3.0}}
        play(env, 5)
        assert env.infos[0] == {"metrics": {"game_return": 3.0}}

    def test_a_game_that_ends_between_lives_begins_anew(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(StandIn, "plan", ((0, "life"), (7, "over")))
        env = begun()
        assert play(env, 3) == [(1, 0, True, True), (0, 0, False, False), (1, 0, True, True)]
        assert env._ale.seeds[-1] == ([True], None)

    @pytest.mark.parametrize(("training", "n_seeded"), [(True, 1), (False, 3)])
    def test_in_training_only_first_games_are_seeded(self, training: bool, n_seeded: int) -> None:
        env = begun(n_envs=2, training=training)
        play(env, 11)
        assert env._ale.seeds == [([True, True], [100 + k, 110 + k]) for k in range(n_seeded)]

    @pytest.mark.parametrize(("limit", "ended"), [("bootstrap", False), ("terminal", True)])
    def test_a_time_limit_ends_the_game(self, limit: Any, ended: bool) -> None:
        env = begun(training=False, max_episode_steps=3, time_limit=limit)
        assert play(env, 4)[2:] == [(3, 0, ended, True), (0, 0, False, False)]
        assert env.spec.max_steps == 3

    def test_a_life_lost_at_the_limit_ends_the_game(self) -> None:
        env = begun(max_episode_steps=2)
        play(env, 2)
        assert env.infos[0] == {"metrics": {"game_return": 6.0}}

    def test_a_saved_state_goes_on_with_the_next_games(self) -> None:
        env, other = begun(n_envs=2), begun(n_envs=2)
        play(env, 6)
        state = env.state_dict()
        assert state["exact"] is False
        other.load_state_dict(state)
        assert other._ale.seeds[-1] == ([True, True], [102, 112])
        said = r"2 environments, this run has 1: set hardware\.n_envs=2"
        with pytest.raises(ValueError, match=said):
            made().load_state_dict(state)

    def test_frames_are_stored_once(self) -> None:
        spec = made().spec
        assert (spec.obs_shape, spec.frame_stack, spec.obs_dtype) == ((1, 84, 84), 4, "uint8")
        assert spec.obs_scale == 1 / 255

    def test_films_show_the_frames(self) -> None:
        env = begun(n_envs=2)
        play(env, 1)
        ((image,),) = env.render([1])
        assert (image.shape, image.dtype, image.max()) == ((84 * ZOOM, 84 * ZOOM, 3), np.uint8, 1)
        assert env.frames_per_second == 15

    def test_atari_names_have_no_methods(self) -> None:
        with pytest.raises(AttributeError, match="AtariVectorEnv has no method lives"):
            made().call("lives")

    def test_closing_closes_the_emulators(self) -> None:
        env = made()
        env.close()
        assert env._ale.closed


def test_a_missing_package_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ValueError, match=r"env=atari needs ale_py, .*-m pip install 'ale-py>="):
        made()


@needs_package
def test_an_unknown_game_is_refused() -> None:
    with pytest.raises(ValueError, match=r"env\.game=Pong: expected .* Did you mean 'pong'"):
        made("Pong")


@needs_package
@pytest.mark.parametrize(("full", "n_actions"), [(False, 4), (True, 18)])
def test_actions_of_a_game(full: bool, n_actions: int) -> None:
    assert made("breakout", full_action_set=full).spec.n_actions == n_actions


@needs_package
def test_a_test_game_depends_on_its_seed_alone() -> None:
    env = made("breakout", training=False, max_episode_steps=12)

    def seen() -> list[np.ndarray]:
        return [env.obs.copy() for _ in range(13) if env.step(np.array([[2]])) is not None]

    env.reset(lambda i, k: 5)
    first = seen()
    np.testing.assert_array_equal(first[:-1], seen()[:-1])
    env.reset(lambda i, k: 6)
    assert not np.array_equal(first, seen())


@needs_package
def test_a_lost_life_closes_an_episode_in_training_only() -> None:
    learning, testing = made("breakout"), made("breakout", training=False)
    for env in (learning, testing):
        env.reset(lambda i, k: 3)
    idle = np.zeros((1, 1), np.int64)
    while not learning.last[0]:  # the served ball is missed after some 25 steps
        learning.step(idle)
        testing.step(idle)
        np.testing.assert_array_equal(learning.obs, testing.obs)
    assert (learning.infos[0], testing.last[0]) == ({}, False)
