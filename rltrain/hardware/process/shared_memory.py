"""Memory that this process shares with its workers, and arrays and weights in it.

The memory is a file without a name, which workers inherit when they are started: nothing is left
behind, however a process ends.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.hardware.env_share import Share
from rltrain.hardware.steps import Layout

ALIGNMENT = 64
"""Bytes; every array begins at a multiple."""


class SharedArrays:
    """Arrays by name in shared memory, zero at first. A copy that is pickled while a process is
    started (and only then) shares them.
    """

    def __init__(self, layout: Layout, shared: Any = None) -> None:
        self.layout = dict(layout)
        offsets, end = [], 0
        for shape, dtype in self.layout.values():
            offsets.append(end)
            end += math.ceil(math.prod(shape) * dtype.itemsize / ALIGNMENT) * ALIGNMENT
        size = max(end, 1)
        self.fd = _nameless_file(size) if shared is None else shared.detach()
        whole = mmap.mmap(self.fd, size)
        self.arrays = {
            name: np.frombuffer(whole, dtype, math.prod(shape), offset).reshape(shape)
            for (name, (shape, dtype)), offset in zip(self.layout.items(), offsets, strict=True)
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __reduce__(self) -> tuple[type[SharedArrays], tuple[object, ...]]:
        return SharedArrays, (self.layout, reduction.DupFd(self.fd))

    def __del__(self) -> None:
        os.close(self.fd)  # the memory itself is freed with the last array


def _nameless_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rltrain")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


METHODS = (
    *("state_dict", "load_state_dict", "_save_to_state_dict", "_load_from_state_dict"),
    *("get_extra_state", "set_extra_state"),
)
HOOKS = (
    *("_state_dict_hooks", "_state_dict_pre_hooks"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)


def _copied_plainly(module: nn.Module) -> bool:
    """Whether a module's ``state_dict`` and ``load_state_dict`` copy values and do nothing else."""
    own = (getattr(getattr(module, n), "__func__", None) is getattr(nn.Module, n) for n in METHODS)
    return all(own) and not any(getattr(module, name) for name in HOOKS)


class SharedExchange:
    """Steps, weights and clocks in memory that this process shares with its workers. The learner
    writes weights that they read into agents of their own, as ``state_dict`` and
    ``load_state_dict`` do.

    Args:
        layout: the arrays [T, E, …] of all environments by the names of ``Steps``.
        agents: whose weights workers follow.
        n_workers: W, how many there are.
    """

    def __init__(self, layout: Layout, agents: nn.Module, n_workers: int) -> None:
        tensors = agents.state_dict()
        self.steps = SharedArrays(layout)
        self.weights = SharedArrays(
            {name: (tuple(t.shape), t.cpu().numpy().dtype) for name, t in tensors.items()}
        )
        self.clocks = SharedArrays({"seconds": ((n_workers, 2), np.dtype(np.float64))})
        self._of: nn.Module | None = None  # whose owners are known
        self._owners: list[tuple[nn.Module, str]] | None = None  # None: hooks have to be called

    @property
    def seconds(self) -> np.ndarray:
        """[W, 2] of each worker: acting, and in the environment."""
        return self.clocks["seconds"]

    def publish(self, agents: nn.Module) -> None:
        """Give the workers the current weights."""
        tensors = self._tensors(agents)
        if tensors is None:
            tensors = list(agents.state_dict().values())
        for array, tensor in zip(self.weights.arrays.values(), tensors, strict=True):
            array[...] = tensor.detach().cpu().numpy()

    def joined(self, n_steps: int, parts: Sequence[Any]) -> dict[str, np.ndarray]:
        """The steps of all workers [T, E, …], copied; ``write`` returned nothing for ``parts``."""
        return {name: self.steps[name][:n_steps].copy() for name in self.steps.layout}

    def read(self, agents: nn.Module) -> None:
        """In a worker: load the weights."""
        tensors = self._tensors(agents)
        if tensors is None:  # copies: a hook may keep what it gets
            arrays = self.weights.arrays.items()
            agents.load_state_dict({name: torch.from_numpy(a.copy()) for name, a in arrays})
            return
        for array, tensor in zip(self.weights.arrays.values(), tensors, strict=True):
            tensor.detach().copy_(torch.from_numpy(array))

    def write(self, fields: Mapping[str, np.ndarray], share: Share) -> None:
        """In a worker: give the steps [T, E, …] of its share to the run."""
        for name, array in fields.items():
            self.steps[name][: len(array), share.envs] = array

    def worker_seconds(self, share: Share) -> np.ndarray:
        """In a worker: where it adds up its times, [2]."""
        return self.seconds[share.number]

    def _tensors(self, agents: nn.Module) -> list[Tensor] | None:
        """The tensor that every array of weights follows; None if copying is not all that loading
        does. The modules are searched once: reading ``state_dict`` takes as long as acting does.
        """
        if agents is not self._of:
            self._of, self._owners = agents, None
            if all(map(_copied_plainly, agents.modules())):
                paths = [name.rpartition(".") for name in self.weights.layout]
                self._owners = [(agents.get_submodule(path), name) for path, _, name in paths]
        if self._owners is None:
            return None
        return [getattr(module, name) for module, name in self._owners]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_of": None, "_owners": None}
