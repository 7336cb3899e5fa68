"""Environments that would end the program: a failure of theirs wherever they do it."""

import argparse
import logging
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.common.files import get_json
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.team.adapter import TeamEnv
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock
from tests.env.scripted import Zeros
from tests.env.team.scripted import Scripted as Team
from tests.marks import slow_except

WORDS = ["env=gymnasium", "algo=dqn", "algo.learning_starts=8", "logger=[]", "test.interval=1000"]
WORDS += ["test.episodes=2", "test.n_envs=1", "hardware.n_envs=2", "hardware.threads=1"]


class Closed(BaseException):
    """Of a package whose window was closed."""


def wrong_arguments() -> None:
    argparse.ArgumentParser().parse_args(["--unknown"])


def raising(error: BaseException) -> Callable[[], None]:
    def end() -> None:
        raise error

    return end


ENDS: dict[str, Callable[[], None]] = {
    "SystemExit": raising(SystemExit(None)),
    "SystemExit: 0": raising(SystemExit(0)),
    "SystemExit: 3": raising(SystemExit(3)),
    "SystemExit: bankrupt": raising(SystemExit("bankrupt")),
    "SystemExit: 2": wrong_arguments,
    "Closed: window": raising(Closed("window")),
}


class Ending(gymnasium.Env):
    """Episodes of four steps; calls ``end`` in the method ``place``, after ``patience`` calls."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)
    end: Callable[[], None] = staticmethod(lambda: None)
    place = ""
    patience: Mapping[str, int] = {"step": 4, "reset": 1}

    def __init__(self):
        self.calls = 0
        self.at("__init__")

    def at(self, place: str) -> None:
        self.calls += place == self.place
        if place == self.place and self.calls > self.patience.get(place, 0):
            type(self).end()

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.at("reset")
        return 0, {}

    def step(self, action):
        self.at("step")
        self.t += 1
        return self.t % 4, 1.0, self.t == 4, False, {}

    def render(self):
        self.at("render")
        return np.zeros((4, 4, 3), np.uint8)

    def close(self):
        self.at("close")

    def speak(self):
        self.at("speak")


class EndingTeam(Team):
    """Two agents; ends in ``place``."""

    end, place = Ending.end, ""

    def reset(self, seed=None, options=None):
        if self.place == "reset" and seed:
            type(self).end()
        return super().reset(seed, options)

    def step(self, actions):
        if self.place == "step":
            type(self).end()
        return super().step(actions)


def made(name: str, place: str, kind: type = Ending) -> Any:
    return type("Made", (kind,), {"end": staticmethod(ENDS[name]), "place": place})


@pytest.fixture(params=ENDS)
def name(request):
    return request.param


@pytest.mark.parametrize("place", ["reset", "step"])
@pytest.mark.parametrize("team", [False, True])
def test_in_an_adapter(name: str, place: str, team: bool) -> None:
    kind = made(name, place, EndingTeam if team else Ending)
    env: Any = TeamEnv(kind()) if team else GymnasiumEnv(kind())

    def play() -> None:
        for seed in range(1, 4):
            env.reset(seed)
            for _ in range(3):
                env.step(np.zeros(env.spec.n_agents, np.int64))

    with pytest.raises(EnvError, match=rf"at step \d of the episode with seed \d failed: {name} "):
        play()


class Batched(SyncVectorEnv):
    """A batched environment that ends in ``place``."""

    place = ""

    def step(self, action):
        if self.place == "step":
            self.end()
        return super().step(action)

    def reset(self, seeds):
        if self.place == "reset":
            self.end()
        super().reset(seeds)

    def state_dict(self, *args):
        self.end()

    call = close = state_dict


@pytest.mark.parametrize("place", ["step", "reset", "call", "state_dict", "close", "test"])
def test_in_a_rollout_of_a_batched_environment(name: str, place: str) -> None:
    env = Batched(make=lambda: GymnasiumEnv(Ending()), n_envs=1)
    env.end, env.place = ENDS[name], "step" if place == "test" else place
    rollout = rollout_of(env)
    use = {
        **dict.fromkeys(("step", "reset"), lambda: rollout.collect(1, Clock())),
        "test": lambda: rollout.run_episodes(1, 0, Clock()),
        "call": lambda: rollout.call("speak"),
        "state_dict": lambda: (rollout.collect(1, Clock()), rollout.state_dict()),
        "close": rollout.close,
    }
    with pytest.raises(EnvError, match=rf"The environment failed.*{name} \("):
        use[place]()


def vector(kind: Any) -> SyncVectorEnv:
    return SyncVectorEnv(make=lambda: GymnasiumEnv(kind()), n_envs=1)


def rollout_of(env: SyncVectorEnv) -> Rollout:
    policy: Any = Zeros()
    return Rollout(env=env, policy=policy, seeds=lambda e, k: k)


@pytest.mark.parametrize("place", ["render", "speak"])
def test_in_what_a_run_calls(name: str, place: str) -> None:
    env = vector(made(name, place))
    rollout = rollout_of(env)
    with pytest.raises(EnvError, match=name):
        env.render([0]) if place == "render" else rollout.call("speak")


def test_in_close_it_is_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        vector(made(name, "close")).close()
    assert f"an environment could not be closed ({name}" in caplog.text


@pytest.mark.parametrize("place", ["__init__", "reset", "step"])
def test_check_env_finds_it(name: str, place: str) -> None:
    (problem,) = rltrain.check_env(made(name, place)).problems
    assert name in problem


def test_in_the_constructor_of_a_run(name: str, tmp_path) -> None:
    with pytest.raises(EnvError, match=name) as failed:
        rltrain.make_trainer(WORDS, tmp_path, env=made(name, "__init__"))
    assert failed.value.exit_code == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", ["reset", "step"])
@pytest.mark.parametrize(
    "name", slow_except(["SystemExit: 3"], ["SystemExit", "SystemExit: 3", "Closed: window"])
)
def test_a_run_ends_with_a_reason_and_its_state(name: str, place: str, tmp_path) -> None:
    folder, env = tmp_path / "run", made(name, place)
    env.patience = {"step": 30, "reset": 8}
    words = [*WORDS, "total_env_steps=100", f"hydra.run.dir={folder}"]
    with pytest.raises(RuntimeError, match=rf"The run failed: EnvError: .*{name} \("):
        rltrain.train(words, env=env, progress=False)
    record = get_json(folder / "run.json")
    assert (record["status"], record["exit_code"]) == ("failed", 4)
    assert name in record["error"]
    assert name in (folder / "train.log").read_text()
    rltrain.resume(folder, total_env_steps=60, env=Ending, progress=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_what_a_person_or_python_ends_stays_what_it_is(error: type[BaseException]) -> None:
    kind = type("Made", (Ending,), {"end": staticmethod(raising(error())), "place": "step"})
    rollout = rollout_of(vector(kind))
    with pytest.raises(error):
        rollout.collect(9, Clock())
