"""Stable-Baselines3 used as documented, run by a Python that has it installed: trains DQN on
CartPole with checkpoints, from the newest one if there is one, or loads models.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import gymnasium
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback

STEPS = 3000


def weights(model: DQN) -> str:
    """The SHA-256 sum of a model's parameters."""
    found = hashlib.sha256()
    for tensor in model.policy.state_dict().values():
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()


def train(folder: Path) -> None:
    """Train to the end; prints ``begun`` when it begins."""
    saved = {int(re.findall(r"\d+", p.stem)[-1]): p for p in folder.glob("run_[0-9]*_steps.zip")}
    if saved:
        step = max(saved)
        model = DQN.load(saved[step], env=gymnasium.make("CartPole-v1"))
        model.load_replay_buffer(folder / f"run_replay_buffer_{step}_steps.pkl")
    else:
        model = DQN("MlpPolicy", "CartPole-v1", learning_starts=200, seed=0)
    print("begun", flush=True)
    callback = CheckpointCallback(200, str(folder), name_prefix="run", save_replay_buffer=True)
    model.learn(STEPS - model.num_timesteps, callback, reset_num_timesteps=not saved)
    print(weights(model), flush=True)


def load(folder: Path) -> None:
    """Load every model of a folder; prints the sum of its weights, or the error."""
    for path in sorted(folder.iterdir()):
        try:
            print(path.name, weights(DQN.load(path)), flush=True)
        except Exception as error:
            print(path.name, "error", type(error).__name__, flush=True)


if __name__ == "__main__":
    {"train": train, "load": load}[sys.argv[1]](Path(sys.argv[2]))
