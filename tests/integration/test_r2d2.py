"""R2D2 by its name."""

import gymnasium
import numpy as np
import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.types import Clock


class Recall(gymnasium.Env):
    """Shows a cue, then nothing for four steps; the last action has to repeat the cue."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.t = int(self.np_random.integers(2)), 0
        return np.float32([2 * self.cue - 1, 0]), {}

    def step(self, action):
        self.t += 1
        end = self.t == 5
        return np.float32([0, self.t / 5]), float(end and action == self.cue), end, False, {}


TINY = ["algo=r2d2", "hardware.threads=1", "logger.console=false", "logger.wandb.mode=disabled"]


def test_its_settings_are_those_of_the_paper():
    plain = settings_from(["algo=r2d2"]).plain
    loss, buffer = plain["algo"]["loss"], plain["buffer"]
    assert (loss["gamma"], loss["n_step"]) == (0.997, 5)
    assert (loss["double"], loss["rescale"]) == (True, 1e-3)
    assert (buffer["sampler"], buffer["first_hidden"]) == ("proportional", "stored")
    assert (buffer["alpha"], buffer["beta"], buffer["beta_end"]) == (0.9, 0.6, 0.6)
    assert (buffer["burn_in"] * 2, buffer["eta"]) == (buffer["sequence_length"], 0.9)


@pytest.mark.slow
def test_windows_have_stored_states_a_burn_in_and_priorities(tmp_path):
    trainer = rltrain.make_trainer(
        [*TINY, "env=cartpole", "hardware.n_envs=2", "algo.learning_starts=64"], run_dir=tmp_path
    )
    trainer.run(200)
    assert trainer.clock.updates > 0
    batch = trainer.buffer.sample(8, Clock())
    assert batch.hidden.abs().max() > 0
    assert int(batch.warm_up.max()) == 8
    assert batch.eta == 0.9
    assert len(batch.weight.unique()) > 1  # importance weights of unequal priorities
    trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "lowest", "highest"), [("r2d2", 0.95, 1), ("dqn", 0, 0.75)])
def test_it_solves_what_needs_memory(tmp_path, algo, lowest, highest):
    overrides = [
        *(*TINY[1:], f"algo={algo}", "total_env_steps=4000", "hardware.n_envs=4"),
        *("algo.learning_starts=200", "algo.exploration.env_steps=1500", "test.episodes=50"),
        *("algo.optimizer.lr=3e-3", "algo.target_update.env_steps=200"),
    ]
    if algo == "r2d2":
        overrides += ["buffer.sequence_length=4", "buffer.burn_in=2", "algo.network.hidden_dim=16"]
    trainer = rltrain.make_trainer(overrides, env=Recall, run_dir=tmp_path)
    assert lowest <= trainer.train()["test/return_mean"] <= highest
