"""RankTrainer: the training loop of one of several processes that learn together."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from rltrain.trainer import Trainer
from rltrain.types import Steps

log = logging.getLogger("rltrain")


class Together(Protocol):
    """The processes that learn together."""

    device: torch.device

    @property
    def orphaned(self) -> bool: ...
    def start(self) -> None: ...
    def sum(self, tensor: Tensor) -> None: ...
    def copy_first(self, tensor: Tensor) -> None: ...
    def close(self) -> None: ...


class RankTrainer(Trainer):
    """Collects and stores in environments of its own; the gradients are those of all ranks.

    After every collect the ranks add up what they collected, so that their clocks are the same, all
    make the same number of gradient steps, and all end in the same iteration. Everything periodic
    happens on rank 0, for which the others wait in their next sum.

    Args:
        ranks: the processes.
        shared: tensors that are the same on all ranks: weights, targets and moments.
    """

    def __init__(self, *, ranks: Together, shared: list[Tensor], **parts: Any) -> None:
        super().__init__(**parts)
        self.ranks, self.shared = ranks, shared
        self.asked: str | None = None  # why this rank wants to end

    def start(self) -> None:
        if not self.started:
            self.ranks.start()
            for tensor in self.shared:
                self.ranks.copy_first(tensor)
        super().start()

    def run(self, until: int) -> None:
        while self.clock.env_steps < until and self.stopping is None:
            self.stopwatch.lap("other")
            steps = self.rollout.collect(self.steps_per_collect, self.clock)
            self.stopwatch.lap("collecting")
            self.report(steps)
            steps = self.callbacks.on_collect(self, steps)
            self.buffer.add(steps)
            env_steps, episodes, unready, ending = self.added(steps)
            self.clock = replace(
                self.clock,
                env_steps=self.clock.env_steps + env_steps,
                episodes=self.clock.episodes + episodes,
            )
            if not unready:
                self.owed += self.per_episode * episodes + self.per_env_step * env_steps
                due, self.owed = divmod(self.owed, self.shares)
                self.learn(due)
            if ending:
                self.stopping = self.asked or "another rank ended"
            self.callbacks.on_iteration(self)

    def added(self, steps: Steps) -> tuple[int, ...]:
        """Sums over all ranks: env steps, finished episodes, ranks that cannot learn yet, ranks
        that want to end.
        """
        if self.ranks.orphaned and self.asked is None:
            log.warning("torchrun has ended: stopping after this iteration and saving.")
            self.stop("torchrun has ended", interrupted=True)
        enough = self.buffer.n_steps >= self.learning_starts or self.buffer.full
        unready = not (enough and self.buffer.ready(self.batch_size))
        counts = [steps.env_steps, len(steps.episodes), unready, self.asked is not None]
        together = torch.tensor(counts, dtype=torch.int64, device=self.ranks.device)
        self.ranks.sum(together)
        return tuple(together.tolist())

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End all ranks after the next iteration."""
        self.asked, self.interrupted = why, interrupted or self.interrupted

    def close(self) -> None:
        super().close()
        self.ranks.close()
