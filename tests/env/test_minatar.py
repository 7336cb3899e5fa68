"""MinAtar as a vector environment: the package's own episodes, exact states, options. What needs
the package is skipped without it; a stand-in game shows the rest.
"""

import importlib.util
from importlib.machinery import ModuleSpec
from typing import Any

import numpy as np
import pytest

from rltrain.common.checkpoint.fit import UNFIT
from rltrain.env.minatar import CELL, COLORS, MinAtarGame, minatar_env, plain
from rltrain.env.vector import SyncVectorEnv

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("minatar") is None, reason="MinAtar is not installed"
)
GAMES = {"breakout": 3, "asterix": 5, "freeway": 3, "seaquest": 6, "space_invaders": 4}
"""How many actions do something."""


class StandIn:
    """A game of two channels that remembers what was done; it ends after ``ends_at`` steps."""

    ends_at = 100

    def __init__(self, ramping: bool) -> None:
        self.ramping = ramping
        self.channels, self.action_map = {"a": 0, "b": 1}, list("nlurdf")
        self.random = np.random.RandomState()
        self.reset()

    def act(self, a: int) -> tuple[int, bool]:
        self.done.append([a, self.random.randint(1000)])
        return a, len(self.done) >= self.ends_at

    def state(self) -> np.ndarray:
        state = np.zeros((10, 10, 2), bool)
        state[0, len(self.done) % 10, 1] = True
        return state

    def reset(self) -> None:
        self.done: list[Any] = []

    def state_shape(self) -> list[int]:
        return [10, 10, 2]

    def minimal_action_set(self) -> list[int]:
        return [0, 2, 5]


OPTIONS: dict[str, Any] = {
    **{"sticky_action_prob": 0.1, "difficulty_ramping": True, "minimal_action_set": False},
    "max_episode_steps": None,
}


def stand_in(**given: Any) -> MinAtarGame:
    env = MinAtarGame(StandIn, **{**OPTIONS, "sticky_action_prob": 0.0, **given})
    env.reset(0)
    return env


def made(game: str, **given: Any) -> SyncVectorEnv:
    return minatar_env(game=game, **{**OPTIONS, "n_envs": 2, "time_limit": "bootstrap", **given})


def go(env: MinAtarGame, action: int) -> tuple[Any, ...]:
    return env.step(np.array([action]))


def seeds(copy: int, k: int) -> int:
    return 7 + copy + 10 * k


def test_observations_are_bytes_with_channels_first() -> None:
    env = stand_in()
    assert (env.spec.obs_shape, env.spec.obs_dtype, env.spec.obs_scale) == ((2, 10, 10), "uint8", 1)
    envs = SyncVectorEnv(make=stand_in, n_envs=1)
    envs.reset(seeds)
    envs.step(np.array([[0]]))
    assert (envs.obs.shape, envs.obs.dtype) == ((1, 1, 2, 10, 10), np.uint8)
    assert np.argwhere(envs.obs).tolist() == [[0, 0, 1, 0, 1]]


def test_a_minimal_action_set_numbers_the_useful_actions() -> None:
    env = stand_in(minimal_action_set=True)
    assert env.spec.n_actions == 3
    assert [go(env, a)[1].tolist() for a in range(3)] == [[0], [2], [5]]


def test_a_sticky_action_repeats_what_was_done() -> None:
    env = stand_in(sticky_action_prob=1.0)
    assert [go(env, a)[1].item() for a in (3, 4)] == [0, 0]  # an episode begins as after action 0
    env.sticky_action_prob = 0.0
    assert [go(env, a)[1].item() for a in (3, 4)] == [3, 4]


def test_difficulty_ramping_is_passed_on() -> None:
    assert [stand_in(difficulty_ramping=on).game.ramping for on in (True, False)] == [True, False]


@pytest.mark.parametrize(
    ("limit", "ends_at", "ends"),
    [(2, 100, (False, True)), (None, 100, (False, False)), (2, 2, (True, False))],
)
def test_a_time_limit_cuts_off_what_has_not_ended(monkeypatch, limit, ends_at, ends) -> None:
    monkeypatch.setattr(StandIn, "ends_at", ends_at)
    env = stand_in(max_episode_steps=limit)
    assert env.spec.max_steps == limit
    go(env, 0)
    assert go(env, 0)[2:4] == ends


def test_plain_values_are_copies() -> None:
    inner = [np.int64(3), None, True]
    out = plain({"a": inner, "b": np.arange(2)})
    assert out["a"] == [3, None, True]
    assert [type(x) for x in out["a"]] == [int, type(None), bool]
    assert out["a"] is not inner
    np.testing.assert_array_equal(out["b"], [0, 1])


def test_films_show_the_last_channel_that_is_set() -> None:
    env = stand_in()
    image = env.render()
    assert (image.shape, image.dtype) == ((10 * CELL, 10 * CELL, 3), np.uint8)
    assert image[0, 0].tolist() == COLORS[2].tolist()
    assert image[0, CELL].tolist() == COLORS[0].tolist()


@pytest.mark.parametrize("found", [None, ModuleSpec("minatar", None)], ids=["none", "a file"])
def test_a_missing_package_says_what_to_install(monkeypatch: Any, found: ModuleSpec | None) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    with pytest.raises(ValueError, match=r"the package MinAtar, .*-m pip install 'MinAtar>="):
        made("breakout")


@needs_package
@pytest.mark.parametrize("game", GAMES)
def test_episodes_are_those_of_the_package(game: str) -> None:
    from minatar import Environment

    ours, theirs = made(game, n_envs=1), Environment(game)
    ours.reset(lambda i, k: 11 + k)
    theirs.seed(11)
    theirs.reset()
    for action in np.random.default_rng(0).integers(0, 6, 400).tolist():
        np.testing.assert_array_equal(ours.obs[0, 0].transpose(1, 2, 0), theirs.state())
        if ours.last[0]:
            break
        reward, terminated = ours.step(np.array([[action]]))
        assert (reward.item(), terminated.item()) == theirs.act(action)


WRONG: dict[str, Any] = {
    "game.done": [7, [[0, 1]] * 10**4 + [[0, 10**9]], [["x"]], [[float("nan")]], {"a": 1}],
    "game": [7, {}, {"done": [], "random": 1}],
    "random.pos": [-1, 625, 1.5, True, None],
    "random.key": [np.zeros(623, np.int64), np.zeros(624), np.full(624, 2**32), "x"],
    "t": [-1, 10**18, "x"],
    "last_action": [-1, 6, None, True],
}


@pytest.mark.parametrize(("path", "value"), [(p, v) for p, each in WRONG.items() for v in each])
def test_a_state_that_no_game_has_is_refused(path: str, value: object) -> None:
    """Defect: numbers of a stranger's checkpoint were taken as they were."""
    env, (*parts, name) = stand_in(), path.split(".")
    state = go(env, 3) and env.state_dict()
    stand_in().load_state_dict(state)
    (state[parts[0]] if parts else state)[name] = value
    with pytest.raises(UNFIT):
        stand_in().load_state_dict(state)


@needs_package
@pytest.mark.parametrize("game", GAMES)
def test_no_value_of_a_game_is_taken_unchecked(game: str) -> None:
    env = made(game, n_envs=1)
    env.reset(seeds)
    for action in np.random.default_rng(2).integers(0, 6, (60, 1, 1)):
        env.step(action)
    for name, value in env.envs[0].state_dict()["game"].items():
        low = np.full_like(value, -99) if isinstance(value, np.ndarray) else -99
        for wrong in (None, "x", 10**9, low, [[1]], [[10**9] * 5]):
            state = env.envs[0].state_dict()
            state["game"][name] = wrong
            with pytest.raises(UNFIT):
                made(game).envs[0].load_state_dict(state)


@needs_package
@pytest.mark.parametrize(("game", "n_actions"), GAMES.items())
def test_how_many_actions_do_something(game: str, n_actions: int) -> None:
    assert made(game).spec.n_actions == 6
    assert made(game, minimal_action_set=True).spec.n_actions == n_actions
