"""A Dict observation with an image and a number: stored in bytes, learned from both."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain

OVERRIDES = [
    *("algo=dqn", "algo/network=multi_input", "algo.network.filters=[[4,3,3]]"),
    *("algo.network.vector_sizes=[8]", "algo.network.hidden_sizes=[32]", "algo.optimizer.lr=5e-3"),
    *("algo.learning_starts=100", "algo.updates_per_env_step=0.5"),
    *("algo.exploration.env_steps=500", "hardware.n_envs=2", "hardware.threads=1"),
    *("total_env_steps=1000", "test.interval=10_000", "test.episodes=40", "test.n_envs=4"),
    *("buffer.capacity=5000", "logger.console=false", "logger.wandb.mode=disabled"),
]


class Exclusive(gymnasium.Env):
    """One step: action 1 is right if either the image's right half is bright or the number is
    positive, but not both.
    """

    observation_space = spaces.Dict(
        {"image": spaces.Box(0, 255, (6, 6, 1), np.uint8), "sign": spaces.Box(-1, 1, (1,))}
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.right, self.positive = self.np_random.integers(0, 2, 2).tolist()
        return self.obs(), {}

    def obs(self):
        image = np.zeros((6, 6, 1), np.uint8)
        image[:, 3 * self.right : 3 * self.right + 3] = 255
        return {"image": image, "sign": np.array([1 if self.positive else -1], np.float32)}

    def step(self, action):
        reward = float(action == self.right ^ self.positive)
        return self.obs(), reward, True, False, {}


@pytest.mark.slow
def test_image_and_number_are_learned_together(own_folder):
    trainer = rltrain.make_trainer(OVERRIDES, own_folder / "run", env=Exclusive)
    trainer.start()
    trainer.run(1000)
    stored = trainer.buffer.store.arrays["obs"]
    assert (stored.dtype, stored.shape[1]) == (np.uint8, 36 + 4)
    assert trainer.test()["test/return_mean"] == 1.0
    trainer.save("weights")
    policy = rltrain.load_policy(own_folder / "run")
    game = Exclusive()
    for seed in range(8):
        obs, _ = game.reset(seed=seed)
        assert policy.act(obs) == game.right ^ game.positive


def test_pixels_for_a_network_without_convolutions_are_warned_about(own_folder, caplog):
    overrides = [word for word in OVERRIDES if "network" not in word]
    rltrain.make_trainer(overrides, own_folder / "run", env=Exclusive)
    assert "algo/network=multi_input has convolutions for them" in caplog.text


def test_observations_without_keys_are_refused_before_anything_is_written(command):
    overrides = [word for word in OVERRIDES if "filters" not in word]
    with pytest.raises(rltrain.errors.UsageError, match="encoder per key of Dict observations"):
        command("env=cartpole", "tuned=none", *overrides)
