"""Observations of every kind of space are recorded as they were shown, and learned from."""

import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.callback import Callback
from rltrain.offline.dataset import open_dataset
from tests.env.scripted import Sampled
from tests.marks import slow_except

IMAGE = spaces.Box(0, 255, (6, 6, 3), np.uint8)
NUMBERS = spaces.Box(-1, 1, (2,), np.float32)
SPACES = {
    "numbers": NUMBERS,
    "doubles": spaces.Box(-1, 1, (2, 2), np.float64),
    "bytes": spaces.Box(0, 255, (5,), np.uint8),
    "image": IMAGE,
    "category": spaces.Discrete(3, start=1),
    "categories": spaces.MultiDiscrete([2, 3]),
    "flags": spaces.MultiBinary(3),
    "dict of an image": spaces.Dict({"seen": IMAGE}),
    "dict of an image and numbers": spaces.Dict({"seen": IMAGE, "own": NUMBERS}),
    "tuple of numbers and images": spaces.Tuple([NUMBERS, IMAGE, IMAGE]),
    "dict of a dict": spaces.Dict({"in": spaces.Dict({"seen": IMAGE, "c": spaces.Discrete(2)})}),
}
FAST = ("numbers", "bytes", "image", "category", "categories", "dict of a dict")
OVERRIDES = {
    "algo": "dqn",
    "tuned": "none",
    "algo/network": "mlp",
    "total_env_steps": 80,
    "test": {"interval": 1000, "episodes": 1, "n_envs": 1},
    "algo.learning_starts": 20,
    "algo.batch_size": 4,
    "buffer.capacity": 60,
    "hardware.threads": 1,
    "logger": {"console": False, "wandb.mode": "disabled"},
}


def environment(space):
    parts = {"observation_space": space, "action_space": spaces.Discrete(2)}
    return type("Shows", (Sampled,), parts)


class Shown(Callback):
    """Keeps all observations that were collected."""

    def __init__(self):
        self.rows = set()

    def on_collect(self, trainer, value):
        self.rows |= {row.tobytes() for row in value.obs.reshape(-1, *value.obs.shape[2:])}
        return value


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", slow_except(FAST, SPACES))
def test_what_was_shown_is_recorded_and_read_again(tmp_path, name):
    data, shown, read = str(tmp_path / "data"), Shown(), Shown()
    env = environment(SPACES[name])
    overrides = {**OVERRIDES, "dataset.write": data}
    trainer = rltrain.make_trainer(overrides, tmp_path / "a", env=env, callbacks=[shown])
    trainer.train()
    shown.rows |= {row.tobytes() for row in trainer.rollout.env.obs[:, 0]}  # the last are not sent
    trainer.close()
    dataset = open_dataset(tmp_path / "data", trainer.rollout.env.spec)
    pieces = [dataset.piece(i)["obs"] for i in range(len(dataset.length))]
    written = {row.tobytes() for obs in pieces for row in obs}
    assert 0 < len(written) <= len(shown.rows)
    assert written <= shown.rows
    overrides = {**OVERRIDES, "dataset.read": data, "dataset.held_out": 0.2}
    trainer = rltrain.make_trainer(overrides, tmp_path / "b", env=env, callbacks=[read])
    trainer.train()
    assert trainer.clock.updates > 0
    assert len(read.rows) > 0
    assert read.rows <= written
