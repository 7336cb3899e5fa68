"""``python -m rltrain.buffer`` compiles the kernels of the buffers before the first run."""

from __future__ import annotations

import numpy as np
import torch

from rltrain.buffer.replay import ReplayBuffer
from rltrain.common.file_rows import move_rows
from rltrain.types import Clock, EnvSpec, Steps

SPEC = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,))


def compile_kernels() -> None:
    """Compile the kernels of prioritized and uniform sampling, or load them from the cache."""
    buffer = ReplayBuffer(
        spec=SPEC,
        n_envs=1,
        device=torch.device("cpu"),
        rng=np.random.default_rng(0),
        n_step=1,
        hidden_dim=0,
        total_env_steps=1,
        capacity=64,
        max_bytes=None,
        precision="float32",
        sampler="proportional",
        eta=0.9,
        sequence_length=1,
        burn_in=0,
        first_hidden="zero",
        agents="lockstep",
    )
    shape = (8, 1)
    buffer.add(
        Steps(
            obs=np.zeros((*shape, 1, 2), np.float32),
            avail_actions=np.ones((*shape, 1, 2), np.uint8),
            state=np.zeros((*shape, 0), np.float32),
            last=np.zeros(shape, np.bool_),
            action=np.zeros((*shape, 1), np.int64),
            reward=np.zeros((*shape, 1), np.float32),
            terminated=np.zeros(shape, np.bool_),
            lost=np.zeros(1, np.bool_),
        )
    )
    batch = buffer.sample(2, Clock())
    buffer.update_priority(batch.index, torch.ones(2))
    buffer.starts.priorities = None
    buffer.sample(2, Clock())
    move_rows(-1, np.zeros((0, 1, 1), np.int64), np.zeros((0, 1)), write=False)


if __name__ == "__main__":
    compile_kernels()
    print("the buffers' kernels are compiled")
