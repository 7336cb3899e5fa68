"""``python -m rltrain.env.games`` compiles the kernels of games and of classic control before the
first run.
"""

from __future__ import annotations

import numpy as np

from rltrain.env.games.stag_hunt import STAY, StagHunt
from rltrain.env.make_gymnasium import gymnasium_env


def compile_kernels() -> None:
    """Compile the environments' kernels, or load them from the cache."""
    for id in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"):
        classic = gymnasium_env(
            id=id, n_envs=1, training=True, record=False, compiled=True, kwargs={}
        )
        classic.reset(lambda e, k: 0)
        classic.step(np.zeros((1, 1), np.int64))
    env = StagHunt(
        n_envs=1,
        n_agents=2,
        n_stags=1,
        n_hares=1,
        size=4,
        sight=1,
        reward_stag=10.0,
        reward_hare=1.0,
        miscapture=-2.0,
        time_limit="bootstrap",
        max_episode_steps=2,
    )
    env.reset(lambda e, k: 0)
    env.step(np.full((1, 2), STAY))


if __name__ == "__main__":
    compile_kernels()
    print("the games' kernels are compiled")
