"""SyncVectorEnv: environments in lock step, next-step resets, keyed seeds, time limits, state."""

import json
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest

from rltrain.common.seeding import SeedsOfTraining
from rltrain.env.make_gymnasium import draws, try_to_draw
from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.errors import EnvError
from rltrain.types import EnvSpec
from tests.helpers import require_same_steps


class Counting:
    """Shows (seed, step); ends after seed % 3 + 1 steps, truncated where the seed is odd."""

    spec = EnvSpec(n_agents=2, n_actions=2, obs_shape=(2,), state_dim=1, n_rewards=2)

    def __init__(self) -> None:
        self.seed, self.t, self.closed = -1, 0, False

    def reset(self, seed: int) -> Observation:
        self.seed, self.t = seed, 0
        return self._observation()

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Mapping]:
        self.t += 1
        over = self.t == self.seed % 3 + 1
        even = self.seed % 2 == 0
        reward = action.astype(np.float32) + 1
        return self._observation(), reward, over and even, over and not even, {"win": even}

    def close(self) -> None:
        self.closed = True

    def where(self, scale: int) -> int:
        return self.seed * scale

    def _observation(self) -> Observation:
        obs = np.full((2, 2), (self.seed, self.t), np.float32)
        return Observation(obs, np.eye(2, dtype=np.uint8), np.array([self.t], np.float32))


class Exact(Counting):
    """The same, and it can tell its state."""

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "t": self.t}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seed, self.t = state["seed"], state["t"]


def seeds(copy: int, k: int) -> int:
    return 10 * copy + k


def begun(make: Any) -> SyncVectorEnv:
    """Two environments in their first episodes."""
    env = SyncVectorEnv(make=make, n_envs=2)
    env.reset(seeds)
    return env


ACTION = np.array([[0, 1], [1, 1]])


def test_reset_begins_episode_0_of_every_copy() -> None:
    env = begun(Counting)
    assert env.obs[:, 0].tolist() == [[0, 0], [10, 0]]
    assert env.avail_actions.tolist() == [[[1, 0], [0, 1]]] * 2
    assert (env.state.tolist(), env.last.tolist()) == ([[0], [0]], [False, False])
    assert (env.avail_actions.dtype, env.state.dtype) == (np.uint8, np.float32)


def test_the_final_observation_owns_a_slot_and_the_next_step_begins_an_episode() -> None:
    env = begun(Counting)  # copy 0: seed 0, 1 step; copy 1: seed 10, 2
    reward, terminated = env.step(ACTION)
    assert reward.tolist() == [[1, 2], [2, 2]]
    assert (terminated.tolist(), env.last.tolist()) == ([True, False], [True, False])
    assert (env.obs[:, 0].tolist(), env.infos[0]) == ([[0, 1], [10, 1]], {"win": True})

    reward, terminated = env.step(ACTION)
    assert reward.tolist() == [[0, 0], [2, 2]]  # copy 0's action was ignored
    assert (terminated.tolist(), env.last.tolist()) == ([False, True], [False, True])
    assert env.obs[:, 0].tolist() == [[1, 0], [10, 2]]  # episode 1 of copy 0 has seed 1


@pytest.mark.parametrize(("time_limit", "expected"), [("bootstrap", False), ("terminal", True)])
def test_a_truncated_episode_is_last_and_terminated_only_by_a_terminal_limit(time_limit, expected):
    env = SyncVectorEnv(make=Counting, n_envs=1, time_limit=time_limit)
    env.reset(lambda i, k: 3)  # odd: truncated after 1 step
    _, terminated = env.step(ACTION[:1])
    assert env.last.tolist() == [True]
    assert terminated.tolist() == [expected]


def test_call_reaches_every_copy_and_close_closes_them() -> None:
    env = begun(Counting)
    assert env.call("where", 3) == [0, 30]
    env.close()
    assert env.call("__getattribute__", "closed") == [True, True]


def test_every_environment_is_closed_even_if_others_raise(caplog: Any) -> None:
    class Lost(Counting):
        def close(self) -> None:
            super().close()
            raise OSError("the server is gone")

    env = SyncVectorEnv(make=Lost, n_envs=2)
    env.close()
    assert [each.closed for each in env.envs] == [True, True]
    (record,) = caplog.records
    expected = "an environment could not be closed (OSError: the server is gone)"
    assert (record.levelname, record.getMessage()) == ("WARNING", expected)


def test_an_environment_made_to_look_at_may_fail_to_close(caplog: Any) -> None:
    class Unclosed(gymnasium.Env):
        def __init__(self, **_keywords: object) -> None: ...

        def reset(self, **_keywords: object) -> Any:
            return 0, {}

        def render(self) -> None: ...

        def close(self) -> None:
            raise OSError("the server is gone")

    assert draws(Unclosed, {})
    try_to_draw(Unclosed(), "Unclosed-v0")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


@pytest.mark.parametrize("n_before", range(4))
@pytest.mark.parametrize("make", [Exact, Counting])
def test_a_loaded_state_goes_on_exactly(make: type[Counting], n_before: int) -> None:
    """One without a state of its own repeats its actions."""
    one, other = begun(make), begun(make)
    for _ in range(n_before):
        one.step(ACTION)
    state = one.state_dict()
    if make is Exact:
        json.dumps({k: v for k, v in state.items() if not isinstance(v, np.ndarray)})
    other.load_state_dict(state)
    for _ in range(6):
        assert not other.lost.any()
        require_same_steps(one, other, [ACTION])


class Unseeded(Counting):
    """Its observations depend on how many environments there are."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Unseeded.made += 1
        self.number = Unseeded.made

    def _observation(self) -> Observation:
        found = super()._observation()
        return found._replace(state=found.state + self.number)


def test_an_episode_that_is_not_repeated_gives_way_to_the_next_one(caplog: Any) -> None:
    one = begun(Unseeded)
    one.step(ACTION)
    one.step(ACTION)  # copy 0 is in episode 1, copy 1 in episode 0
    other = begun(Unseeded)
    other.load_state_dict(one.state_dict())
    assert (other.obs[:, 0].tolist(), other.lost.tolist()) == ([[2, 0], [11, 0]], [True, True])
    assert "[0, 1] do not repeat their open episodes" in caplog.text
    other.step(ACTION)
    assert not other.lost.any()


@pytest.mark.parametrize("method", ["reset", "step"])
@pytest.mark.parametrize("found", [IndexError("x"), EnvError("x"), Observation(*np.zeros((3, 1)))])
def test_an_episode_that_fails_when_it_is_repeated_gives_way(method: str, found: Any) -> None:
    """Defect: a few kinds of errors only."""

    def fails(*args: Any) -> Any:
        setattr(other.envs[1], method, getattr(Counting, method).__get__(other.envs[1]))
        if isinstance(found, Exception):
            raise found
        return found if method == "reset" else (found, np.zeros(2), False, False, {})

    one, other = begun(Counting), begun(Counting)
    one.step(ACTION)
    setattr(other.envs[1], method, fails)
    other.load_state_dict(one.state_dict())
    assert (other.lost.tolist(), other.obs[:, 0].tolist()) == ([False, True], [[0, 1], [11, 0]])


class Wrong(Counting):
    """Shows wrong shapes from step 1 on."""

    shown = Observation(np.zeros((1, 2), np.float32), np.eye(2, dtype=np.uint8), np.zeros(1))

    def step(self, action: np.ndarray) -> Any:
        found = super().step(action)
        return (self.shown, *found[1:]) if self.seed == 10 else found


class Raising(Counting):
    """Fails in the first step of its second episode."""

    def step(self, action: np.ndarray) -> Any:
        if self.seed == 11:
            raise KeyError("x")
        return super().step(action)


@pytest.mark.parametrize(
    ("make", "n_before", "match"),  # two steps of a first episode, and the next one's beginning
    [
        (Wrong, 0, r"1 in the episode with seed 10: .*obs.* step 1 .* \(\(1, 2\), .* expected"),
        (Raising, 3, r"1 .* with seed 11: KeyError: 'x'"),
    ],
)
def test_what_fails_is_named_with_its_environment_and_seed(make, n_before, match) -> None:
    env = begun(make)
    for _ in range(n_before):
        env.step(ACTION)
    with pytest.raises(EnvError, match=f"^Environment {match}"):
        env.step(ACTION)


def test_a_failure_in_a_worker_names_the_environment_of_the_run() -> None:
    """Defect: the second of a worker was environment 1 whichever the worker."""

    class Late(SeedsOfTraining):
        def __call__(self, e: int, k: int) -> int:
            return seeds(e, k)

    env = SyncVectorEnv(make=Wrong, n_envs=2)
    env.reset(Late(0, first=4))
    with pytest.raises(EnvError, match=r"^Environment 5 .* with seed 10: "):
        env.step(ACTION)


IMAGE = np.zeros((4, 4, 3), np.uint8)
UNIT = {"x": [1.0], "y": [2.0]}
WORLD = {"bounds": [0, 0, 1, 1]}


def drawn(method: str, returned: Any) -> SyncVectorEnv:
    """An environment with a method that returns a value, or raises it."""

    class Own(Exact):
        def drawn(self) -> Any:
            if isinstance(returned, Exception):
                raise returned
            return returned

    setattr(Own, method, Own.drawn)
    return SyncVectorEnv(make=Own, n_envs=1)


@pytest.mark.parametrize(
    "returned",
    [
        *(ZeroDivisionError("x"), None, "image", {}, [], [None], IMAGE / 255, IMAGE[:, :, 0]),
        *(IMAGE.tolist(), IMAGE[:0], [IMAGE, IMAGE[0]], np.zeros((3, 4, 4), np.uint8)),
    ],
    ids=lambda returned: type(returned).__name__,
)
def test_what_is_no_image_is_the_failure_of_the_environment(returned: Any) -> None:
    """Defect: a run ended with a traceback and the exit code of a defect."""
    with pytest.raises(EnvError, match=r"^The environment.* render\(\)"):
        drawn("render", returned).render([0])


@pytest.mark.parametrize("returned", [IMAGE, [IMAGE], (IMAGE, IMAGE)])
def test_images_are_one_or_several(returned: Any) -> None:
    ((*images,),) = drawn("render", returned).render([0])
    assert {image.shape for image in images} == {(4, 4, 3)}


@pytest.mark.parametrize(
    "returned",
    [
        *(ZeroDivisionError("x"), None, IMAGE, {}, (), (WORLD, [{}])),
        ({}, [{}], UNIT),
        (WORLD, [{}], {"x": [1.0]}),
        (WORLD, [{}, {}], UNIT),
        (WORLD, None, UNIT),
        (WORLD, [{"radius": np.float32(1)}], UNIT),
        ({"bounds": np.zeros(4)}, [{}], UNIT),
        (WORLD, [{}], {**UNIT, "health": 1.0}),
    ],
)
def test_what_is_no_drawing_is_the_failure_of_the_environment(returned: Any) -> None:
    with pytest.raises(EnvError, match=r"^The environment.* drawing\(\)"):
        drawn("drawing", returned).drawing(0)


def test_a_drawing_may_have_lists_for_columns() -> None:
    drawing = drawn("drawing", [WORLD, [{"name": "agent"}], UNIT]).drawing(0)
    assert drawing.columns["x"].tolist() == [1.0]


def test_images_and_drawings_are_not_those_that_an_environment_uses_again() -> None:
    """Defect: in a video of one that draws into an array of its own all frames were the last."""
    image, column = IMAGE.copy(), np.ones(1)
    ((shown,),) = drawn("render", image).render([0])
    drawing = drawn("drawing", (WORLD, [{}], {"x": column, "y": column})).drawing(0)
    image[:], column[:] = 255, 9
    assert not shown.any()
    assert drawing.columns["x"] == 1
