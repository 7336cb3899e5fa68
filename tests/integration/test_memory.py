"""Memory of a training run after its warm-up."""

import gc

import numpy as np
import psutil
import pytest

import rltrain

QUIET = ["logger.console=false", "logger.wandb.mode=disabled", "hardware.threads=1"]
CARTPOLE = ["algo=dqn", "env=cartpole", "buffer.capacity=1_000", "test.n_envs=4", "test.episodes=4"]
TEAM = ["algo=qmix", "env=smac", "buffer.capacity=48", "test.n_envs=4", "test.episodes=4"]


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [CARTPOLE, TEAM], ids=["dqn", "qmix"])
def test_memory_does_not_grow_after_warm_up(overrides, tmp_path):
    """Tests, checkpoints and rows of metrics included: less than 40 bytes per env step, a sixth of
    what keeping the observations of 3m would take."""
    intervals = ["test.interval=1_000", "save.interval=1_000", "log.interval=200"]
    trainer = rltrain.make_trainer([*overrides, *intervals, *QUIET], run_dir=tmp_path)
    trainer.start()
    process, env_steps, used = psutil.Process(), [], []
    for until in range(6_000, 18_000, 500):
        trainer.run(until)
        gc.collect()
        env_steps.append(trainer.clock.env_steps)
        used.append(process.memory_info().rss)
    trainer.close()
    slope, _ = np.polyfit(env_steps, used, 1)
    assert slope < 40
