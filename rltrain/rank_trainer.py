"""RankTrainer: the training loop of one of several processes that learn together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rltrain.common.checkpoint import Found
from rltrain.common.seeding import NOISE_STREAM, seed_key
from rltrain.common.spec_record import changes
from rltrain.errors import EnvError
from rltrain.hardware.ddp.ranks import Ranks
from rltrain.stage import Stage, StopRequest
from rltrain.trainer import T, Trainer
from rltrain.types import Clock, Steps

log = logging.getLogger("rltrain")


class RankTrainer(Trainer):
    """Collects and stores in environments of its own; the gradients are those of all ranks.

    After every collect the ranks add up what they collected, so that their clocks are the same, all
    make the same number of gradient steps, and all end in the same iteration. Everything periodic
    happens on rank 0, for which the others wait in their next sum, and only rank 0 changes files of
    the run.

    Args:
        ranks: the processes.
        shared: tensors that are the same on all ranks: weights, targets and moments.
    """

    def __init__(self, *, ranks: Ranks, shared: list[Tensor], **parts: Any) -> None:
        super().__init__(**parts)
        self.ranks, self.shared = ranks, shared
        self.wish: StopRequest | None = None  # of this rank, to end all of them

    def start(self) -> None:
        new = self.stage is Stage.NEW
        if new:
            self.ranks.start()
            first, *others = self.ranks.gather(self.about["spec"])
            if changed := next(filter(None, (changes(first, each) for each in others)), None):
                raise EnvError(
                    "The processes of torchrun have different environments. In the first one: "
                    f"{changed.replace(', here ', ', in another one ')}. Give possible_agents an "
                    "order, or type PYTHONHASHSEED=0 before torchrun."
                )
            for tensor in self.shared:
                self.ranks.copy_first(tensor)
        super().start()
        if new:  # a callback may have ended the run
            self.asked = next(filter(None, self.ranks.gather(self.wish)), None)

    def restore(self, path: str | Path) -> Found:
        """Restore on all ranks the checkpoint that rank 0 chose and restored; every rank then draws
        its own noise, as it does from the start.
        """
        self.wish = None
        found = self.on_first_rank(partial(super().restore, path))
        if self.ranks.rank > 0:
            super().restore(found.folder)
        self.ranks.gather(None)  # before rank 0 deletes checkpoints, all have read theirs
        with self.random:
            rank, updates = self.ranks.rank, self.clock.updates
            torch.manual_seed(seed_key(torch.initial_seed(), NOISE_STREAM, rank, updates))
        return found

    def on_first_rank(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns on rank 0, for which the others wait."""
        self.ranks.start()
        result: T = self.ranks.gather(work() if self.ranks.rank == 0 else None)[0]
        return result

    def tidy_checkpoints(self) -> None:
        """Tidy the checkpoints on rank 0."""
        if self.ranks.rank == 0:
            super().tidy_checkpoints()

    def counted(self, steps: Steps) -> int:
        """Count the sums over all ranks; ends all of them in the same iteration."""
        if self.ranks.orphaned and self.wish is None:
            log.warning("torchrun has ended: stopping after this iteration and saving.")
            self.stop("torchrun has ended", interrupted=True)
        counts = [steps.env_steps, len(steps.episodes), not self.can_learn]
        counts += [self.wish is not None, self.interrupted]
        together = torch.tensor(counts, dtype=torch.int64, device=self.ranks.device)
        self.ranks.sum(together)
        env_steps, episodes, unready, ending, interrupted = together.tolist()
        before = self.clock
        self.clock = Clock(before.env_steps + env_steps, before.episodes + episodes, before.updates)
        if ending:
            self.asked = self.wish or StopRequest("another rank ended", interrupted > 0)
        return 0 if unready else self.update_ratio.due(env_steps, episodes)

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End all ranks after the next iteration."""
        request = StopRequest(why, interrupted)
        if not self.interrupted:
            self.wish = request

    @property
    def interrupted(self) -> bool:
        """Whether a signal reached this rank, or another one in an earlier iteration."""
        return super().interrupted or (self.wish is not None and self.wish.interrupted)

    def close(self) -> None:
        super().close()
        self.ranks.close()
