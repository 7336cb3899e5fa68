"""How PyTorch computes on the CPU, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread(when: bool) -> Iterator[None]:
    """PyTorch computes on one thread inside."""
    n_threads = torch.get_num_threads()
    changes = when and n_threads > 1
    if changes:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if changes:
            torch.set_num_threads(n_threads)


@contextmanager
def flushed_denormals(when: bool = True) -> Iterator[None]:
    """Results too small for a float's normal range are zero inside, on this thread. Moments of
    gradients that stay zero decay to such numbers, which take a CPU up to 100 times as long.
    """
    if when:
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if when:
            torch.set_flush_denormal(False)
