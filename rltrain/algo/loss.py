"""Losses: what a batch teaches.

A new one is a callable of (online, target, batch, clock) that gives a ``Result``.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rltrain.algo.targets import greedy, n_step_target, pick
from rltrain.algo.window import inside, zero_outside
from rltrain.types import (
    Agents,
    Batch,
    Clock,
    Count,
    Flag,
    Mixer,
    Model,
    Probability,
    Result,
)


class TDLoss:
    """Squared TD error of the mixed values: DQN (T = N = 1), DRQN, IQL, VDN, QMIX.

    The target is r + γ (1 − terminated) F⁻(Q⁻(a*)), n steps deep, where a* is the best available
    action of the online agents (``double``; van Hasselt et al. 2016) or of the target agents. What
    lies behind a window's first ``last``, NaN included, changes neither the loss nor a gradient.

    | metric         | meaning: mean over taught transitions and value streams   |
    | -------------- | --------------------------------------------------------- |
    | `loss`         | squared TD error × the window's weight                    |
    | `td_error_abs` | absolute TD error                                         |
    | `q_taken_mean` | mixed value of the actions taken                          |
    | `target_mean`  | target                                                    |
    """

    def __init__(self, *, gamma: Probability, double: Flag, n_step: Count) -> None:
        self.gamma, self.double, self.n_step = gamma, double, n_step

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """Loss sum, count (taught transitions × M), priority [B] (a window's mean |TD error|)."""
        real = inside(batch.last)  # [T+1, B]
        taught = (batch.mask & real[1:]).unsqueeze(-1)  # [T, B, 1]
        state = zero_outside(batch.state, real)  # [T+1, B, S]

        output = cast(Agents, online.agents).unroll(batch)
        online_greedy = greedy(output.q.detach(), batch.avail_actions)  # [T+1, B, N]
        q_taken = cast(
            Mixer, online.mixer
        )(  # [T, B, M]
            pick(output.q[:-1], batch.action),
            pick(output.q[:-1].detach(), online_greedy[:-1]),
            batch.action,
            state[:-1],
        )
        td_target = batch.td_target
        if td_target is None:
            td_target = self._td_target(target, batch, online_greedy, state)

        td_error = torch.where(taught, q_taken - td_target, 0)  # [T, B, M]
        loss_sum = (td_error.square() * batch.weight.unsqueeze(-1)).sum()
        n_taught = taught.sum((0, 2)) * q_taken.shape[-1]  # [B]
        count = n_taught.sum()
        error = td_error.detach().abs()
        at_least_one = count.clamp(min=1)
        metrics = {
            "loss": loss_sum.detach() / at_least_one,
            "td_error_abs": error.sum() / at_least_one,
            "q_taken_mean": torch.where(taught, q_taken.detach(), 0).sum() / at_least_one,
            "target_mean": torch.where(taught, td_target, 0).sum() / at_least_one,
        }
        return Result(loss_sum, count, error.sum((0, 2)) / n_taught.clamp(min=1), metrics)

    @torch.no_grad()
    def _td_target(
        self, target: Model, batch: Batch, online_greedy: Tensor, state: Tensor
    ) -> Tensor:
        """[T, B, M]"""
        q = cast(Agents, target.agents).unroll(batch).q[1:]
        target_greedy = greedy(q, batch.avail_actions[1:])  # [T, B, N]
        best = online_greedy[1:] if self.double else target_greedy
        value = cast(Mixer, target.mixer)(pick(q, best), pick(q, target_greedy), best, state[1:])
        return n_step_target(
            batch.reward, batch.terminated, batch.last, value, self.gamma, self.n_step
        )
