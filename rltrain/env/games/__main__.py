"""``python -m rltrain.env.games`` compiles the games' kernels before the first run."""

from __future__ import annotations

import numpy as np

from rltrain.env.games.stag_hunt import StagHunt
from rltrain.env.games.stag_hunt_kernel import STAY


def compile_kernels() -> None:
    """Compile what stag hunt calls, or load it from the cache."""
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
