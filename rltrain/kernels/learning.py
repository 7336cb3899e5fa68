"""The loop of gradient steps on plain networks without tensors: draw, windows, learning step and
Adam, one compiled call after the other.
"""

from __future__ import annotations

from operator import is_
from typing import Any, cast

import numpy as np
import torch

from rltrain.algo.learner import Learner
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.buffer.replay import ReplayBuffer
from rltrain.buffer.windows import windows
from rltrain.kernels.acting import normalized, obs_alone, statistics_of
from rltrain.kernels.gradient_step import AdamStep, plain_adam
from rltrain.kernels.layers.td_step import NAMES, CompiledTDLoss, draw, loss_options
from rltrain.kernels.module_watch import CompiledMethod, ModuleWatch, unreplaced
from rltrain.types import UpdateResult


def bypassed(trainer: Any) -> tuple[Any, ...]:
    """The objects whose methods are not called, or once for several steps."""
    learner, buffer = trainer.learner, trainer.buffer
    parts = learner, learner.check, learner.gradient_step, learner.gradient_step.flat
    return *parts, learner.loss, buffer, buffer.store, trainer.metrics


class CompiledLearning:
    """``Trainer.learn`` for a learner and a replay buffer that ``fits`` accepts.

    Results are those of their own methods, to the last bit. These make the first gradient step,
    which checks sizes, and all others while something is hooked or replaced.
    """

    def __init__(self, trainer: Any) -> None:
        learner, self.buffer = trainer.learner, trainer.buffer
        self.learner: Learner = learner
        self.parts = bypassed(trainer)
        self.kinds = [*map(type, self.parts)]
        self.loss: Any = learner.loss  # CompiledTDLoss
        self.agents = cast(FeedForward, learner.online.agents)
        self.watch = ModuleWatch(learner.online, learner.target, learns=True)
        self.checked = False  # a first batch

    @staticmethod
    def fits(learner: Learner, buffer: object) -> bool:
        """Whether these parts are compiled, and pass nothing but arrays."""
        return (
            type(learner) is Learner
            and type(buffer) is ReplayBuffer
            and isinstance(learner.loss, CompiledTDLoss)
            and isinstance(vars(learner.gradient_step).get("take"), CompiledMethod)
            and buffer.store.as_in_batches
            and not (buffer.keeps_hidden or buffer.per_agent or buffer.burn_in)
            and obs_alone(learner.online.agents.input)
            and learner.reward_norm is None
            and not learner.buffers.copies()
        )

    def __call__(self, trainer: Any, n_updates: int) -> None:
        """Make ``n_updates`` gradient steps."""
        if n_updates > 0 and not self.checked:
            type(trainer).learn(trainer, 1)
            self.checked, n_updates = True, n_updates - 1
        if n_updates > 0:
            compiled = self._same_parts(trainer) and self._computes(trainer.batch_size)
            (self._learn if compiled else type(trainer).learn)(trainer, n_updates)

    def _same_parts(self, trainer: Any) -> bool:
        """Whether nothing was replaced since this object was made, or may be between two steps."""
        parts = bypassed(trainer)
        return (
            all(map(is_, parts, self.parts))
            and [*map(type, parts)] == self.kinds
            and unreplaced(*parts)
            and not (trainer.callbacks.changes_batches or trainer.callbacks.changes_updates)
            and self.fits(self.learner, self.buffer)
            and plain_adam(self.learner.gradient_step)
        )

    def _computes(self, batch_size: int) -> bool:
        """Whether compiled code computes batches of this size."""
        rows = batch_size * self.buffer.spec.n_agents
        plain = self.watch.plain() and self.loss.plain
        models = self.learner.online, self.learner.target
        computes: bool = plain and self.loss.computes_rows(*models, self._mask_end, rows)
        return computes

    @property
    def _mask_end(self) -> int:
        """The step of windows from which on nothing is learned."""
        return self.buffer.length - self.buffer.n_step + 1

    def _learn(self, trainer: Any, n_updates: int) -> None:
        from rltrain.kernels.layers import td_step_kernel
        from rltrain.kernels.layers.td_error_kernel import BatchArrays

        learner, buffer, loss = self.learner, self.buffer, self.loss
        learner.gradient_step.flat.require_attached()
        if not learner.online.agents.training:  # a test switched its noise off
            learner.online.train()
        scheduled = learner.gradient_step.schedule(trainer.clock.env_steps)
        shown = {name: np.float32(value) for name, value in scheduled.items()}
        adam = AdamStep(learner.gradient_step)
        stack, target = loss.stacks(learner.online, learner.target)
        options, n_agents = loss_options(loss.loss, buffer.eta), buffer.spec.n_agents
        sizes = buffer.length, trainer.batch_size, n_agents
        given: Any = None  # networks and levels, where nothing in them is drawn
        statistics = self._statistics(trainer.batch_size * n_agents)
        ones, rows = np.ones(trainer.batch_size, np.float32), []
        for _ in range(n_updates):
            clock = trainer.clock
            env, step, _, item, weight = buffer.starts.draw(trainer.batch_size, buffer.rng, clock)
            first = np.zeros_like(step)
            read = windows(buffer.store, env, step, buffer.length, first, self._mask_end)
            if statistics is not None:
                seen = read.obs.reshape(len(read.obs), -1)
                normalized(seen, *statistics, out=seen)
            batch = BatchArrays(
                obs=read.obs.reshape(*read.rows.shape, n_agents, -1),
                avail_actions=read.avail_actions.reshape(*read.rows.shape, n_agents, -1),
                state=read.state,
                last_action=read.last_action,
                last=read.last,
                action=read.action,
                reward=read.reward,
                terminated=read.terminated,
                mask=read.mask,
                weight=ones if weight is None else weight.astype(np.float32),
            )
            trainer.stopwatch.lap("sampling")
            if given is None or stack.draws_noise or stack.levels is not None:
                given = draw(stack, target, sizes, self._mask_end, options.double)
            networks, levels, noise = given
            gradient = np.empty_like(networks[0])
            priority, sums = np.zeros(len(item), np.float32), np.zeros(2 + len(NAMES))
            results = gradient, priority, sums
            if not td_step_kernel.step(
                batch, levels, self._mask_end, networks, options, *loss.outputs, *results
            ):
                learner.check.require_indices(buffer.batch_of(env, step, None, item, weight))
                raise IndexError("the batch does not fit the network")
            skipped, norm = adam(stack.parameter_gradient(gradient, noise), sums)
            trainer.clock = clock.after_update()
            if learner.target_update.due(trainer.clock):
                learner._update_target(learner.target_update.tau)
            if weight is not None:
                buffer.update_priority(torch.from_numpy(item), torch.from_numpy(priority))
            rows.append((*(sums / max(sums[1], 1)), norm, skipped))
            trainer.stopwatch.lap("learning")
        self._report(trainer, np.array(rows, np.float32), shown)

    def _report(self, trainer: Any, rows: np.ndarray, shown: dict[str, Any]) -> None:
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

    def _statistics(self, n_rows: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Shift and scale of the observations of ``n_rows`` agents [n_rows · O]; None if they are
        not normalized.
        """
        of_one = statistics_of(self.agents)
        return None if of_one is None else (np.tile(of_one[0], n_rows), np.tile(of_one[1], n_rows))
