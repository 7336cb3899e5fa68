"""Mistakes in one's own environments are named."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.errors import EnvError
from tests.integration.test_own_parts_refused import CARTPOLE


class Ending(gymnasium.Env):
    """One step, with a reward and a flag of any type."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)
    reward, over = 1.0, True

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, self.over, False, {}


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
