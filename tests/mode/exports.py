"""Runs whose weights are exported."""

import rltrain

ONE_AGENT = ["env=cartpole", "hardware.threads=1", "hardware.n_envs=1", "tuned=none"]


def saved(overrides, folder, env=None):
    """A run folder with the weights of the initialization."""
    trainer = rltrain.make_trainer([*overrides, "test.n_envs=2"], run_dir=folder, env=env)
    trainer.start()
    trainer.save("weights")
    trainer.close()
    return folder
