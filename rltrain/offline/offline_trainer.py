"""OfflineTrainer: the loop without acting: fill the replay from a dataset, then learn."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from rltrain.common.stateful import all_or_nothing
from rltrain.errors import UsageError
from rltrain.offline.dataset import Reader
from rltrain.trainer import Trainer
from rltrain.types import Clock
from rltrain.update_ratio import UpdateRatio

CHUNK = 4096
"""Transitions read at once while the replay is filled."""


class OfflineTrainer(Trainer):
    """Learns from a dataset at the pace of the run that would have played it.

    Its clock: ``total_env_steps`` and all intervals count the transitions that such a run would
    have made, so that n of them bring n * updates_per_env_step gradient steps, or
    updates_per_episode for every mean episode of the dataset. The replay is filled first. Where it
    holds the whole dataset, nothing is read again; else as many transitions are read as the clock
    counts, in shuffled order, pass after pass.
    """

    def __init__(self, *, reader: Reader, env_steps_per_iteration: int, **parts: Any) -> None:
        super().__init__(rollout=reader, **parts)
        self.reader, self.env_steps_per_iteration = reader, env_steps_per_iteration
        lengths = reader.dataset.length[reader.chosen]
        episodes, env_steps = len(lengths), int(lengths.sum())
        self.episodes_per_env_step = Fraction(episodes, env_steps)
        both = self.update_ratio
        rate = both.per_env_step + both.per_episode * self.episodes_per_env_step
        self.update_ratio = UpdateRatio(rate, Fraction(0))

    def run(self, until: int) -> None:
        """Learn until the first iteration with this many env steps on the clock."""
        while self.clock.env_steps < until and self.stopping is None:
            self.tidy_checkpoints()
            with self.iteration():
                if not self.reader.filled:
                    self.fill()
                n = self.env_steps_per_iteration
                if self.buffer.full:
                    self.read(n)
                env_steps = self.clock.env_steps + n
                episodes = math.floor(env_steps * self.episodes_per_env_step)
                self.clock = Clock(env_steps, episodes, self.clock.updates)
                self.learn(self.update_ratio.due(n, 0))

    def fill(self) -> None:
        """Read the dataset once, or until the replay is full, or the rest of it after an exception;
        UsageError if that is less than a batch.
        """
        while not self.buffer.full and (self.reader.passes == 0 or len(self.reader.order)):
            self.read(CHUNK)
        self.reader.ahead = 0
        self.buffer.finish()
        if not self.buffer.ready(self.batch_size):
            raise UsageError(
                f"The dataset {self.reader.dataset.folder} does not fill one batch of "
                f"algo.batch_size={self.batch_size}: {len(self.reader.chosen)} episodes to learn "
                "from. Lower algo.batch_size or dataset.held_out, or increase buffer.max_bytes."
            )
        self.reader.filled = True

    def read(self, n: int) -> None:
        """Store about ``n`` transitions more; after an exception they are read again."""
        with all_or_nothing(self.reader):
            steps = self.reader.collect(n, self.clock)
            if len(steps.last):
                self.buffer.add(self.callbacks.on_collect(self, steps))
