"""Mistakes in one's own environments are named."""

from dataclasses import replace

import pytest
from gymnasium import spaces

import rltrain
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError, RltrainError, UsageError
from tests.env.scripted import Plain
from tests.hardware.walks import Walk
from tests.integration.test_own_parts_refused import CARTPOLE


class Ending(Plain):
    """One step, with a reward and a flag of any type."""

    observation_space, over = spaces.Box(-1, 1, (1,)), True

    def step(self, action):
        return self.seen(), self.reward, self.over, False, {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"over": "False"}, r"returned terminated='False': expected True or False"),
        ({"over": None}, r"returned terminated=None: expected True or False"),
        ({"reward": "1.0"}, r"the reward '1\.0': expected one number, .*got text"),
        ({"reward": 1e300}, r"the reward 1e\+300: expected a finite number, at most 3e\+38"),
    ],
    ids=lambda x: str(x)[:24],
)
def test_text_is_neither_a_reward_nor_a_flag(tmp_path, changes, said):
    env = type("Own", (Ending,), changes)
    overrides = [w for w in CARTPOLE if w != "env=cartpole"]
    with pytest.raises(EnvError, match=said):
        rltrain.make_trainer(["algo=dqn", *overrides], tmp_path, env=env).train()


@pytest.mark.parametrize("spec", [replace(Walk.spec, n_actions=0), replace(Walk.spec, obs_shape=3)])
def test_a_spec_that_no_environment_has_is_refused_wherever_it_enters(tmp_path, spec):
    """Defect: raw errors of PyTorch and NumPy."""
    batched, own = SyncVectorEnv(make=Walk, n_envs=1), type("Own", (Walk,), {"spec": spec})
    batched.spec = spec
    overrides = ["algo=iql", *(w for w in CARTPOLE if w != "env=cartpole")]
    for make in (
        lambda: rltrain.make_learner(overrides, spec),
        lambda: SyncVectorEnv(make=own, n_envs=1),
        lambda: rltrain.make_trainer(overrides, tmp_path, env=lambda n_envs: batched),
    ):
        with pytest.raises(
            (ValueError, UsageError), match=r"is no valid .*(n_actions is 0|obs_sh)"
        ):
            make()


def test_an_observation_without_numbers_is_refused():
    env = type("Own", (Ending,), {"observation_space": spaces.Box(-1, 1, (0,))})
    (problem,) = rltrain.check_env(env).problems
    assert "which have no numbers" in problem


def test_a_failure_is_told_where_the_console_is_off(own_folder, capsys):
    env = type("Own", (Ending,), {"reward": float("nan")})
    overrides = [w for w in CARTPOLE if w != "env=cartpole"]
    with pytest.raises(RuntimeError):
        rltrain.train(["algo=dqn", *overrides], env=env)
    assert "returned the reward nan" in capsys.readouterr().err


class Counted(Ending):
    """Remembers all objects of a test, and whether they were closed."""

    most, changes_at = 99, 99

    def __init__(self):
        if len(self.made) == self.most:
            raise ValueError("no more of them")
        n_numbers = 2 if len(self.made) >= self.changes_at else 1
        self.observation_space, self.closed = spaces.Box(-1, 1, (n_numbers,)), False
        self.made.append(self)

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"most": n}, []) for n in (1, 2)),
        *(({"changes_at": n}, []) for n in (1, 2)),
        ({}, ["algo=qmix"]),
        ({}, ["env.opponent=random"]),
        ({}, ["buffer.capacity=1", "algo.batch_size=64"]),
    ],
)
def test_environments_are_closed_where_what_is_built_later_is_refused(tmp_path, changes, words):
    """Defect: they stayed open, such as games in processes of their own."""
    env = type("Own", (Counted,), {"made": [], **changes})
    overrides = [w for w in CARTPOLE if w != "env=cartpole"]
    overrides += ["algo=dqn", "hardware.n_envs=2", "test.n_envs=2", *words]
    with pytest.raises(RltrainError):
        rltrain.make_trainer(overrides, tmp_path, env=env)
    assert all(each.closed for each in env.made)


def test_environments_of_a_refused_evaluation_are_closed(tmp_path):
    overrides = [w for w in CARTPOLE if w != "env=cartpole"]
    trainer = rltrain.make_trainer(["algo=dqn", *overrides], tmp_path / "run", env=Ending)
    folder = trainer.export(tmp_path / "weights")
    trainer.close()
    env = type("Own", (Counted,), {"made": [], "changes_at": 0})
    with pytest.raises(RltrainError, match="does not fit"):
        rltrain.evaluate(folder, 1, env=env)
    assert [each.closed for each in env.made] == [True] * len(env.made)
    assert env.made
