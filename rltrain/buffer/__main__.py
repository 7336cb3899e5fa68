"""``python -m rltrain.buffer`` compiles the kernels of the buffers before the first run."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rltrain.buffer.fields import step_fields
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
    steps: dict[str, Any] = {
        name: np.zeros((8, 1, *shape), dtype)
        for name, (shape, dtype) in step_fields(SPEC, "float32").items()
    }
    steps["avail_actions"][:], steps["action"] = True, np.zeros((8, 1, 1), np.int64)
    buffer.add(Steps(**steps, lost=np.zeros(1, np.bool_)))
    batch = buffer.sample(2, Clock())
    buffer.update_priority(batch.index, torch.ones(2))
    buffer.starts.priorities = None
    buffer.sample(2, Clock())
    move_rows(-1, np.zeros((0, 1, 1), np.int64), np.zeros((0, 1)), write=False)


if __name__ == "__main__":
    compile_kernels()
    print("the buffers' kernels are compiled")
