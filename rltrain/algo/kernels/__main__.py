"""``python -m rltrain.algo.kernels`` compiles the learner's kernels before the first run."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


def compile_recurrence() -> None:
    """Compile every kernel of the GRU, or load it from the cache."""
    from rltrain.algo.kernels import gru, gru_kernel
    from rltrain.algo.network.packing import PackedGRU

    n_rows = 2 * gru_kernel.BLOCK
    first = torch.zeros(n_rows, 2)
    cell = PackedGRU(2, 2)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        gru.gru(cell, first.clone(), first, [n_rows]).sum().backward()


def compile_td_step() -> None:
    """Compile the learning step of plain feed-forward agents, or load it from the cache."""
    from rltrain.algo.kernels.feed_forward import Stack
    from rltrain.algo.kernels.td_step import td_step
    from rltrain.types import Batch

    stack = Stack([], [nn.Linear(2, 2)], [])
    some = torch.zeros(1, 1, 1, dtype=torch.int64)
    batch = Batch(
        obs=torch.zeros(2, 1, 1, 2),
        avail_actions=torch.ones(2, 1, 1, 2, dtype=torch.bool),
        state=torch.zeros(2, 1, 0),
        last_action=torch.zeros(2, 1, 1, dtype=torch.int64),
        last=torch.zeros(2, 1, dtype=torch.bool),
        action=some,
        reward=torch.zeros(1, 1, 1),
        terminated=torch.zeros(1, 1, dtype=torch.bool),
        mask=torch.ones(1, 1, dtype=torch.bool),
        weight=torch.ones(1),
        index=some[0, 0],
    )
    stack.output(batch.obs[0, 0])
    td_step(stack, stack, batch, (np.float32(1), True, 1, np.float32(-1)))


if __name__ == "__main__":
    compile_recurrence()
    compile_td_step()
    print("the learner is compiled")
