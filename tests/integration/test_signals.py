"""Signals to commands that do not train."""

import signal
import subprocess
import sys
import time

import pytest

ENV = """
import gymnasium
from pathlib import Path


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        Path("playing").touch()
        return self.observation_space.sample(), 0.0, False, False, {}

    def close(self):
        Path("closed").touch()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_an_evaluation_is_left_in_order(own_folder, no_nohup, name):
    """Defect: SIGTERM and SIGHUP ended commands other than training on the spot."""
    (own_folder / "endless.py").write_text(ENV)
    words = ["mode=evaluate", "algo=scripted", "algo.policy=random", "env=gymnasium"]
    words += ["env.id=endless:Endless", "test.episodes=1", "test.n_envs=1"]
    command = [sys.executable, "-m", "rltrain", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for _ in range(600):
        if (own_folder / "playing").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(getattr(signal, name))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, name), printed
    assert (own_folder / "closed").exists()
    assert b"Traceback" not in printed
