"""Context managers for PyTorch's arithmetic on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread(when: bool) -> Iterator[None]:
    """Run PyTorch on one thread inside the context."""
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
    """Flush denormal results to zero inside, on this thread. Moments of gradients that stay zero
    decay to denormals, which a CPU computes up to 100 times slower.
    """
    if when:
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if when:
            torch.set_flush_denormal(False)
