"""SMAClite's battles with random available actions, imported from its source folder."""

import random
import sys


def battles(folder, map_name):
    """Env steps."""
    sys.path.insert(0, folder)
    import gymnasium
    import smaclite  # noqa: F401  registers its environments

    env = gymnasium.make(f"smaclite/{map_name}-v0").unwrapped
    env.reset(seed=0)

    def do():
        masks = env.get_avail_actions()
        action = [random.choice([a for a, free in enumerate(mask) if free]) for mask in masks]
        if env.step(action)[2]:
            env.reset()
        return 1.0

    return do
