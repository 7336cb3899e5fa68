"""The processes of torchrun: join them, add up tensors over all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from rltrain.common.machine.child_processes import kill_with_parent
from rltrain.errors import EnvError, UsageError
from rltrain.hardware.env_share import Share, split_envs


@contextmanager
def losing_ranks() -> Iterator[None]:
    """Context or decorator in which an error of torch.distributed becomes an ``EnvError``."""
    try:
        yield
    except RuntimeError as error:
        raise EnvError(
            "Another process of torchrun ended or did not answer within hardware.rank_timeout "
            f"seconds: {str(error).splitlines()[0]}. Resume the run with any number of processes."
        ) from error


class Ranks:
    """This process and the others of torchrun; joined at ``start``.

    Args:
        rank, world_size: number of this process, number of all.
        device: of the tensors that are added: gloo on the CPU, NCCL on the GPU.
        timeout: seconds that one waits for the others.
    """

    def __init__(self, *, rank: int, world_size: int, device: torch.device, timeout: float) -> None:
        self.rank, self.world_size = rank, world_size
        self.device, self.timeout = device, timeout
        self.started, self._parent = False, os.getppid()

    @losing_ranks()
    def start(self) -> None:
        """Wait for all processes, once; a process that waits is killed with torchrun.

        Raises:
            EnvError: they did not come.
        """
        if self.started:
            return
        dist.init_process_group(
            backend="nccl" if self.device.type == "cuda" else "gloo",
            rank=self.rank,
            world_size=self.world_size,
            timeout=timedelta(seconds=self.timeout),
        )
        kill_with_parent(False)  # now there is something to save
        self.started = True

    def share(self, n_envs: int) -> Share:
        """Which of all ``n_envs`` environments this process has."""
        return split_envs(n_envs, self.world_size)[self.rank]

    @property
    def orphaned(self) -> bool:
        """Whether torchrun has ended."""
        return os.getppid() != self._parent

    @losing_ranks()
    def sum(self, tensor: Tensor) -> None:
        """Add up a tensor over all ranks, in place; the result is the same on all, to the last bit.

        Raises:
            EnvError: another rank is gone.
        """
        dist.all_reduce(tensor)

    @losing_ranks()
    def copy_first(self, tensor: Tensor) -> None:
        """Replace a tensor by that of rank 0.

        Raises:
            EnvError: another rank is gone.
        """
        dist.broadcast(tensor, 0)

    @losing_ranks()
    def gather(self, value: object) -> list[Any]:
        """The values of all ranks, in their order.

        Raises:
            EnvError: another rank is gone.
        """
        values = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def close(self) -> None:
        """Leave the group; the others may continue."""
        if self.started:
            dist.destroy_process_group()
        self.started = False


def torchrun_ranks() -> tuple[int, int, int]:
    """Rank, world size and rank on this machine.

    Raises:
        UsageError: torchrun did not start this process.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    if any(name not in os.environ for name in names):
        raise UsageError(
            "hardware=ddp learns in several processes that torchrun starts, and this one was not "
            "started by it: its environment has no RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
            "MASTER_PORT. Type torchrun --nproc-per-node=2 -m rltrain … with the same overrides "
            "(=1: one process); a new run in one process has hardware=auto instead."
        )
    rank, world_size, local_rank = (int(os.environ[name]) for name in names[:3])
    return rank, world_size, local_rank
