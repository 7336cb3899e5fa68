"""An environment whose spaces changed since the checkpoint or the dataset: refused everywhere."""

import itertools

import pytest
from gymnasium import spaces

import rltrain
from rltrain.api import settings_from
from rltrain.assemble.workers import make_rollout
from rltrain.errors import UsageError
from rltrain.hardware.env_share import Share
from rltrain.types import EnvSpec
from tests.env.scripted import Sampled
from tests.marks import each_once

WORDS = ["env=gymnasium", "algo=dqn", "algo.learning_starts=8", "test.interval=1_000_000"]
WORDS += ["test.episodes=2", "test.n_envs=1", "hardware.n_envs=2", "hardware.threads=1"]
WORDS += ["log.interval=20"]


class Before(Sampled):
    """Episodes of four steps."""

    observation_space, action_space, length = spaces.Discrete(3), spaces.Discrete(2), 4


class OtherSeen(Before):
    observation_space = spaces.MultiBinary(3)


class OtherActions(Before):
    action_space = spaces.Discrete(2, start=1)


class OtherTests(Before):
    def __init__(self, training=True):
        if not training:
            self.observation_space = OtherSeen.observation_space


class OtherInTurn(Before):
    made = itertools.count()

    def __init__(self):
        if next(self.made) % 2:
            self.observation_space = OtherSeen.observation_space


OTHERS = {OtherSeen: r"observations Discrete\(3\), here MultiBinary\(\[3\]\)"}
OTHERS |= {OtherActions: r"actions Discrete\(2\), here Discrete\(2, start=1\)"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of ``Before`` with a checkpoint, and a dataset of it."""
    folder = tmp_path_factory.mktemp("before")
    words = [*WORDS, f"dataset.write={folder / 'dataset'}"]
    trainer = rltrain.make_trainer(words, folder / "run", env=Before)
    trainer.iterate()
    trainer.save()
    trainer.close()
    return folder


@each_once(env=OTHERS, place=["evaluate", "restore", "checkpoint", "dataset"])
def test_other_spaces_are_refused(run, tmp_path, env, place):
    def start(*words):
        return rltrain.make_trainer([*WORDS, *words], tmp_path / "new", env=env)

    use = {
        "evaluate": lambda: rltrain.evaluate(run / "run", env=env),
        "restore": lambda: start().restore(run / "run"),
        "checkpoint": lambda: start(f"checkpoint={run / 'run'}"),
        "dataset": lambda: start(f"dataset.read={run / 'dataset'}"),
    }
    with pytest.raises(UsageError, match=OTHERS[env]) as refused:
        use[place]()
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("env", [OtherTests, OtherInTurn])
def test_other_spaces_within_one_run_are_refused(tmp_path, env):
    with pytest.raises(UsageError, match=r"observations MultiBinary\(\[3\]\), here Discrete\(3\)"):
        rltrain.make_trainer(WORDS, tmp_path, env=env)


@pytest.mark.parametrize("keeps", [{}, None])
def test_other_spaces_in_a_worker_are_refused(keeps):
    settings = settings_from([*WORDS, "env.id=CartPole-v1", "hardware=process"])
    there = EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,), obs_space={"discrete": 4, "start": 0})
    with pytest.raises(UsageError, match=r"observations Box\(4,\) float32, here Discrete\(4\)"):
        make_rollout(settings, keeps, there, Share(0, 0, 2, 2), 0)
