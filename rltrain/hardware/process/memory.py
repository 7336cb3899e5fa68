"""Memory that this process shares with its workers, and arrays and weights in it.

The memory is a file without a name, which workers inherit when they are started: nothing is left
behind, however a process ends.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import reduction
from typing import Any

import numpy as np
import torch
from torch import nn

Layout = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""Shape and type of arrays by name."""
ALIGNMENT = 64
"""Bytes; every array begins at a multiple."""


class SharedArrays:
    """Arrays by name in shared memory, zero at first. A copy that is pickled while a process is
    started (and only then) shares them.
    """

    def __init__(self, layout: Layout, fd: int | None = None) -> None:
        self.layout = dict(layout)
        offsets, end = [], 0
        for shape, dtype in self.layout.values():
            offsets.append(end)
            end += math.ceil(math.prod(shape) * dtype.itemsize / ALIGNMENT) * ALIGNMENT
        size = max(end, 1)
        self.fd = _nameless_file(size) if fd is None else fd
        whole = mmap.mmap(self.fd, size)
        self.arrays = {
            name: np.frombuffer(whole, dtype, math.prod(shape), offset).reshape(shape)
            for (name, (shape, dtype)), offset in zip(self.layout.items(), offsets, strict=True)
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __reduce__(self) -> tuple[Callable[..., SharedArrays], tuple[Any, ...]]:
        return _attached, (self.layout, reduction.DupFd(self.fd))

    def __del__(self) -> None:
        os.close(self.fd)  # the memory itself is freed with the last array


def _attached(layout: Layout, fd: Any) -> SharedArrays:
    return SharedArrays(layout, fd.detach())


def _nameless_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rltrain")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


class SharedWeights:
    """One flat buffer with the parameters and buffers of agents, which a learner writes and
    workers read into agents of their own.
    """

    def __init__(self, agents: nn.Module) -> None:
        tensors = agents.state_dict()
        self.shared = SharedArrays(
            {name: (tuple(t.shape), t.cpu().numpy().dtype) for name, t in tensors.items()}
        )

    def write(self, agents: nn.Module) -> None:
        """Copy the weights of agents."""
        for name, tensor in agents.state_dict().items():
            self.shared[name][...] = tensor.cpu().numpy()

    def read(self, agents: nn.Module) -> None:
        """Copy the weights into agents."""
        with torch.no_grad():
            for name, tensor in agents.state_dict().items():
                tensor.copy_(torch.from_numpy(self.shared[name]))
