"""The loop of gradient steps on plain networks without tensors: batch, learning step and Adam, one
compiled call after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any, cast

import numpy as np
import torch

from rltrain.algo.learner import Learner
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.buffer.replay import ReplayBuffer
from rltrain.kernels.gradient_step import AdamStep, plain_adam
from rltrain.kernels.layers.td_step import (
    NAMES,
    CompiledTDLoss,
    draw,
    end_of_mask,
    input_arrays,
    loss_options,
)
from rltrain.kernels.module_watch import CompiledMethod, unreplaced
from rltrain.kernels.table import LEARNING
from rltrain.types import UpdateResult


def compiled_learn(trainer: Any) -> CompiledLearning | None:
    """The counterpart of ``Trainer.learn`` for a learner and a buffer that are compiled."""
    fits = CompiledLearning.fits(trainer.learner, trainer.buffer)
    return CompiledLearning(trainer) if fits else None


class CompiledLearning:
    """``Trainer.learn`` for a learner and a replay buffer that ``fits`` accepts.

    Results are those of their own methods, to the last bit. These make gradient steps while
    something is hooked or replaced.
    """

    def __init__(self, trainer: Any) -> None:
        learner, self.buffer = trainer.learner, trainer.buffer
        self.learner: Learner = learner
        self.parts = LEARNING(trainer)
        self.kinds = [*map(type, self.parts)]
        self.loss = cast(CompiledTDLoss, learner.loss)
        self.agents = cast(FeedForward, learner.online.agents)

    @staticmethod
    def fits(learner: Learner, buffer: object) -> bool:
        """Whether these parts are compiled, and learn from windows of the whole team."""
        return (
            type(learner) is Learner
            and type(buffer) is ReplayBuffer
            and isinstance(learner.loss, CompiledTDLoss)
            and isinstance(vars(learner.gradient_step).get("take"), CompiledMethod)
            and not buffer.per_agent
            and learner.reward_norm is None
            and not learner.buffers.copies()
        )

    def __call__(self, trainer: Any, n_updates: int) -> None:
        """Make ``n_updates`` gradient steps."""
        if n_updates > 0:
            compiled = self._same_parts(trainer) and self._computes(trainer.batch_size)
            (self._learn if compiled else type(trainer).learn)(trainer, n_updates)

    def _same_parts(self, trainer: Any) -> bool:
        """Whether nothing was replaced since this object was made, or may be between two steps."""
        parts = LEARNING(trainer)
        return (
            all(map(is_, parts, self.parts))
            and unreplaced(parts, self.kinds)
            and not (trainer.callbacks.changes_batches or trainer.callbacks.changes_updates)
            and self.fits(self.learner, self.buffer)
            and plain_adam(self.learner.gradient_step)
        )

    def _computes(self, batch_size: int) -> bool:
        """Whether compiled code computes batches of this size."""
        models = self.learner.online, self.learner.target
        mask_end = self.buffer.length - self.buffer.n_step + 1
        sizes = mask_end, batch_size * self.buffer.spec.n_agents
        return self.loss.plain(*models) and self.loss.computes_rows(*models, *sizes)

    def _learn(self, trainer: Any, n_updates: int) -> None:
        learner, buffer, loss = self.learner, self.buffer, self.loss
        learner.gradient_step.flat.require_attached()
        if not learner.online.agents.training:  # a test switched its noise off
            learner.online.train()
        scheduled = learner.gradient_step.schedule(trainer.clock.env_steps)
        shown = {name: np.float32(value) for name, value in scheduled.items()}
        adam = AdamStep(learner.gradient_step)
        stack, target = loss.stacks(learner.online, learner.target)
        options, rows = loss_options(loss.loss, buffer.eta), []
        given: Any = None  # networks and levels, where nothing in them is drawn
        for _ in range(n_updates):
            batch = buffer.sample(trainer.batch_size, trainer.clock)
            trainer.stopwatch.lap("sampling")
            learner.check(batch)
            arrays, mask_end = input_arrays(self.agents, batch), end_of_mask(batch)
            if given is None or stack.draws_noise or stack.head is not None:
                given = draw(stack, target, arrays.action.shape, mask_end, options.double)
            networks, levels, noise = given
            try:
                gradient, priority, sums = loss.computed(
                    arrays, levels, mask_end, networks, options
                )
            except IndexError:
                learner.check.require_indices(batch)  # names the field, if that is the cause
                raise
            skipped, norm = adam(stack.parameter_gradient(gradient, noise), sums)
            trainer.clock = trainer.clock.after_update()
            if learner.target_update.due(trainer.clock):
                learner._update_target(learner.target_update.tau)
            buffer.update_priority(batch.index, torch.from_numpy(priority))
            rows.append((*(sums / max(sums[1], 1)), norm, skipped))
            trainer.stopwatch.lap("learning")
        self._report(trainer, np.array(rows, np.float32), shown)

    def _report(self, trainer: Any, rows: np.ndarray, shown: Mapping[str, np.float32]) -> None:
        """Add the metrics of all updates, and let callbacks count those that were undone."""
        names = NAMES if self.loss.outputs[0] == 1 else NAMES[:-1]
        columns = {"loss": rows[:, 0], **dict(zip(names, rows[:, 2:].T, strict=False))}
        columns |= {"grad_norm": rows[:, -2], "skipped_updates": rows[:, -1]}
        columns |= {name: np.full(len(rows), value) for name, value in shown.items()}
        trainer.metrics.add_all("learn", columns)
        undone = rows[:, -1]
        for skipped in undone if undone.any() else undone[:1]:
            counted = UpdateResult(torch.empty(0), {"skipped_updates": skipped})
            trainer.callbacks.on_update(trainer, counted)
