"""What a replay costs: planned bytes on three maps, and the time of add and sample on 3m shapes.

python -m benchmarks.replay
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.buffer.fields import Storage, bytes_per_step
from rltrain.hardware.device import set_allocator_policy, set_threads
from rltrain.types import Clock, EnvSpec, Steps

MAPS = {
    "3m": EnvSpec(n_agents=3, n_actions=9, obs_shape=(30,), state_dim=48, max_steps=60),
    "8m": EnvSpec(n_agents=8, n_actions=14, obs_shape=(80,), state_dim=168, max_steps=120),
    "27m_vs_30m": EnvSpec(
        n_agents=27, n_actions=36, obs_shape=(285,), state_dim=1170, max_steps=180
    ),
}
CAPACITY = 5_000  # episodes
MEAN_LENGTH = 60  # transitions of a typical episode
BATCH_SIZE = 32
UPDATE_SECONDS = 20e-3  # a gradient step on 3m


def random_steps(
    spec: EnvSpec, n_steps: int, n_envs: int, length: int, rng: np.random.Generator
) -> Steps:
    """Noise in the shapes of ``spec``: ``n_steps`` steps of episodes of ``length`` transitions."""
    shape, n_agents = (n_steps, n_envs), spec.n_agents
    last = np.broadcast_to(np.arange(n_steps)[:, None] % (length + 1) == length, shape)
    return Steps(
        obs=rng.random((*shape, n_agents, *spec.obs_shape), np.float32),
        avail_actions=rng.integers(0, 2, (*shape, n_agents, spec.n_actions), np.uint8),
        state=rng.random((*shape, spec.state_dim), np.float32),
        last=last,
        action=rng.integers(0, spec.n_actions, (*shape, n_agents)),
        reward=rng.random((*shape, spec.n_rewards), np.float32),
        terminated=np.zeros(shape, np.bool_),
        lost=np.zeros(n_envs, np.bool_),
    )


def median_ms(work: Callable[[], object], repeats: int) -> float:
    """Median of this thread's own time per call, in ms."""
    seconds = []
    for _ in range(repeats):
        begun = time.thread_time()
        work()
        seconds.append(time.thread_time() - begun)
    return 1e3 * float(np.median(seconds))


def main() -> None:
    """Print both tables."""
    set_allocator_policy()
    set_threads(1)
    print(f"{CAPACITY} episodes: bytes planned, GB at {MEAN_LENGTH} steps each and at full length")
    storages: tuple[Storage, ...] = ("float32", "float16")
    for name, spec in MAPS.items():
        for storage in storages:
            step, longest = bytes_per_step(spec, storage), spec.max_steps or 0
            typical, worst = (CAPACITY * (n + 1) * step / 1e9 for n in (MEAN_LENGTH, longest))
            print(f"{name:>12} {storage}: {step:6d} B/step {typical:7.2f} GB {worst:7.2f} GB")

    spec, n_envs, rng, clock = MAPS["3m"], 8, np.random.default_rng(0), Clock()
    print(f"3m, batches of {BATCH_SIZE} x {spec.max_steps}, one thread")
    for storage in storages:
        replay = EpisodeBuffer(
            spec=spec,
            n_envs=n_envs,
            device=torch.device("cpu"),
            rng=rng,
            capacity=1_000,
            max_bytes=None,
            storage=storage,
        )
        episodes = random_steps(spec, 61, n_envs, 60, rng)
        for _ in range(1_000 // n_envs):
            replay.add(episodes)
        sample = median_ms(lambda r=replay: r.sample(BATCH_SIZE, clock), 500)  # type: ignore[misc]
        one = random_steps(spec, 1, n_envs, 60, rng)
        add = median_ms(lambda r=replay, s=one: r.add(s), 500)  # type: ignore[misc]
        print(
            f"{storage:>12}: sample {sample:.3f} ms ({sample / UPDATE_SECONDS / 10:.1f} % of an "
            f"update), add of {n_envs} steps {add:.3f} ms"
        )


if __name__ == "__main__":
    main()
