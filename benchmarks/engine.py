"""Speed of the battle engine: env steps per second under random legal actions, by map and number of
environments.

``python -m benchmarks.engine``
"""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table

from rltrain.common.seeding import seed_key
from rltrain.env.smac.data.maps import map_names
from rltrain.env.smac.engine.kernel import draw, njit
from rltrain.env.smac.vector import SmacVectorEnv

N_ENVS, THREADS, SECONDS = (1, 256), 2, 2.0


@njit()
def random_legal(avail, rng, action):  # type: ignore[no-untyped-def]
    """A uniformly drawn available action of every agent into ``action`` [E, A]."""
    for e in range(avail.shape[0]):
        for i in range(avail.shape[1]):
            legal = 0
            for a in range(avail.shape[2]):
                legal += avail[e, i, a]
            left = int(draw(rng, 0) * np.float32(legal))
            for a in range(avail.shape[2]):
                if avail[e, i, a]:
                    if left == 0:
                        action[e, i] = a
                        break
                    left -= 1


def steps_per_second(map_name: str, n_envs: int, seconds: float = SECONDS) -> float:
    """Real env steps of all environments per second, drawing the actions included."""
    env = SmacVectorEnv(map_name=map_name, n_envs=n_envs, n_threads=THREADS)
    env.reset(lambda e, k: seed_key(0, e, k))
    action = np.zeros(env.avail_actions.shape[:2], np.int64)
    rng = np.ones(1, np.uint64)
    for _ in range(50):  # warm up, and let the environments drift apart
        random_legal(env.avail_actions, rng, action)
        env.step(action)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        random_legal(env.avail_actions, rng, action)
        steps += n_envs - int(np.count_nonzero(env.last))
        env.step(action)
    return steps / (time.perf_counter() - start)


def main() -> None:
    """Print the table."""
    table = Table(
        title=f"battle engine, env steps per second, {THREADS} threads, random legal actions"
    )
    table.add_column("map")
    for n_envs in N_ENVS:
        table.add_column(f"E = {n_envs}", justify="right")
    for map_name in map_names():
        table.add_row(map_name, *(f"{steps_per_second(map_name, n):,.0f}" for n in N_ENVS))
    Console().print(table)


if __name__ == "__main__":
    main()
