"""``python -m rltrain.algo`` compiles the recurrence once, so the first run does not have to."""

from __future__ import annotations

import torch
from torch import nn


def compile_recurrence() -> None:
    """Compile every kernel, or load it from the cache."""
    from rltrain.algo import gru_kernel, recurrence

    n_rows = 2 * gru_kernel.BLOCK
    first = torch.zeros(n_rows, 2)
    cell = nn.GRUCell(2, 2)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        recurrence.gru(first.clone(), first, cell, [n_rows]).sum().backward()


if __name__ == "__main__":
    compile_recurrence()
    print("the recurrence is compiled")
