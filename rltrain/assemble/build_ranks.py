"""Differences of one of several processes that learn together (hardware=ddp)."""

from __future__ import annotations

from dataclasses import replace

import torch

from rltrain.algo.learner import Learner
from rltrain.common.machine.child_processes import kill_with_parent
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.hardware.ddp.ranks import Ranks, torchrun_ranks
from rltrain.hardware.rollout import Rollout
from rltrain.types import StateDict


def build_ranks(settings: Settings, device: torch.device) -> Ranks:
    """This process and the others of torchrun.

    Raises:
        ValueError: no torchrun, or settings that do not fit this many processes.
    """
    rank, world_size, local_rank = torchrun_ranks()
    kill_with_parent()  # nothing can be saved yet
    check_ranks(settings, world_size)
    assert settings.ranks is not None
    if device.type == "cuda":
        torch.cuda.set_device(local_rank)
    timeout = settings.ranks.rank_timeout
    return Ranks(rank=rank, world_size=world_size, device=device, timeout=timeout)


class RankRollout(Rollout):
    """A rollout that a checkpoint of rank 0 restarts, whatever its number of environments was."""

    def restart(self, state: StateDict, episodes: int) -> None:
        self.carry_on(state)
        self._started, self._skip = False, episodes


def rank_settings(settings: Settings, ranks: Ranks) -> Settings:
    """The settings with this rank's part of environments, batch, buffer and first steps."""
    algo, node, world_size = settings.learning, settings.nodes["buffer"], ranks.world_size
    n_envs = settings.hardware.n_envs
    kwargs = {
        name: value // world_size if name in ("capacity", "max_bytes") and value else value
        for name, value in node.kwargs.items()
    }
    return replace(
        settings,
        hardware=replace(settings.hardware, n_envs=ranks.share(n_envs).n_envs),
        algo=replace(
            algo,
            batch_size=algo.batch_size // world_size,
            learning_starts=-(-algo.learning_starts // world_size),
            steps_per_collect=algo.time_steps(n_envs),
        ),
        nodes={**settings.nodes, "buffer": replace(node, kwargs=kwargs)},
    )


def shared_tensors(learner: Learner) -> list[torch.Tensor]:
    """Return the tensors that are the same on all ranks: weights, targets, buffers, moments."""
    step = learner.gradient_step
    buffers = [*learner.online.buffers(), *learner.target.parameters(), *learner.target.buffers()]
    return [step.weights, *(tensor.data for tensor in buffers), *step.moments.values()]


def check_ranks(settings: Settings, world_size: int, *, statistics: bool = False) -> None:
    """ValueError for settings that do not fit ``hardware=ddp`` with this many processes.

    Args:
        statistics: the networks keep statistics of the observations.
    """
    require_fit(
        "ranks",
        settings,
        world_size=world_size,
        divisible=-(-settings.learning.batch_size // world_size) * world_size,
        statistics=statistics,
    )
