"""Losses: what a batch teaches.

A new one is a callable of (online, target, batch, clock) that gives a ``Result``.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rltrain.algo.targets import (
    greedy,
    huber,
    lambda_return,
    n_step_target,
    pick,
    rescale,
    unscale,
)
from rltrain.algo.window import inside, zero_outside
from rltrain.types import (
    Agents,
    Batch,
    Clock,
    Count,
    Flag,
    Mixer,
    Model,
    Positive,
    Probability,
    Result,
)


class TDLoss:
    """Squared or Huber TD error of the mixed values: DQN (T = N = 1), DRQN, R2D2, IQL, VDN, QMIX.

    The target is r + γ (1 − terminated) F⁻(Q⁻(a*)), n steps deep, where a* is the best available
    action of the online agents (``double``; van Hasselt et al. 2016) or of the target agents. What
    lies behind a window's first ``last``, NaN included, changes neither the loss nor a gradient.

    Args:
        gamma: discount of one step.
        double: the online agents pick the next action.
        n_step: rewards summed before the bootstrap.
        huber: errors beyond it count linearly; null = squared throughout.
        rescale: values are learned as h(x) with this epsilon (R2D2); null = as they are.

    | metric         | meaning: mean over taught transitions and value streams   |
    | -------------- | --------------------------------------------------------- |
    | `loss`         | (Huber) squared TD error × the window's weight            |
    | `td_error_abs` | absolute TD error                                         |
    | `q_taken_mean` | mixed value of the actions taken                          |
    | `target_mean`  | target                                                    |
    """

    def __init__(
        self,
        *,
        gamma: Probability,
        double: Flag,
        n_step: Count,
        huber: Positive | None = None,
        rescale: Positive | None = None,
    ) -> None:
        self.gamma, self.double, self.n_step = gamma, double, n_step
        self.huber, self.rescale = huber, rescale

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """Loss sum, count (taught transitions × M), priority [B] (a window's mean |TD error|)."""
        real = inside(batch.last)  # [T+1, B]
        state = zero_outside(batch.state, real)  # [T+1, B, S]
        looks_ahead = self.double and batch.td_target is None
        stop = None if looks_ahead else len(batch.action)
        output = cast(Agents, online.agents).unroll(batch, stop=stop)
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
        return result_of(q_taken, td_target, batch, real, self.huber)

    @torch.no_grad()
    def _td_target(
        self, target: Model, batch: Batch, online_greedy: Tensor, state: Tensor
    ) -> Tensor:
        """[T, B, M]"""
        q = cast(Agents, target.agents).unroll(batch, start=1).q[1:]
        target_greedy = greedy(q, batch.avail_actions[1:])  # [T, B, N]
        best = online_greedy[1:] if self.double else target_greedy
        value = cast(Mixer, target.mixer)(pick(q, best), pick(q, target_greedy), best, state[1:])
        if self.rescale is not None:
            value = unscale(value, self.rescale)
        td_target = n_step_target(
            batch.reward, batch.terminated, batch.last, value, self.gamma, self.n_step
        )
        return td_target if self.rescale is None else rescale(td_target, self.rescale)


def result_of(
    q_taken: Tensor, td_target: Tensor, batch: Batch, real: Tensor, delta: float | None
) -> Result:
    """What values [T, B, M] and their targets come to over the taught transitions of a batch."""
    taught = (batch.mask & real[1:]).unsqueeze(-1)  # [T, B, 1]
    td_error = torch.where(taught, q_taken - td_target, 0)  # [T, B, M]
    loss_sum = (huber(td_error, delta) * batch.weight.unsqueeze(-1)).sum()
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


class LambdaLoss:
    """Squared error to Q(λ) returns of the present network; no target network (PQN; Gallici et al.
    2025, algorithm 1).

    Args:
        gamma: discount of one step.
        trace: λ, 0 = one step, 1 = to the end of what was collected.
    """

    n_step = 1

    def __init__(self, *, gamma: Probability, trace: Probability) -> None:
        self.gamma, self.trace = gamma, trace

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """Loss sum, count (taught transitions × M), priority [B]; ``batch.td_target`` is set."""
        assert batch.td_target is not None, "Q(λ) needs buffer=on_policy"
        real = inside(batch.last)
        state = zero_outside(batch.state, real)
        q = cast(Agents, online.agents).unroll(batch, stop=len(batch.action)).q[:-1]
        best = pick(q.detach(), greedy(q.detach(), batch.avail_actions[:-1]))
        q_taken = cast(Mixer, online.mixer)(pick(q, batch.action), best, batch.action, state[:-1])
        return result_of(q_taken, batch.td_target, batch, real, None)

    @torch.no_grad()
    def targets(self, online: Model, transitions: Batch, last: Tensor) -> Tensor:
        """[T, E, M] for ``transitions`` (T = 1, B = T · E, slot by slot) and ``last`` [T+1, E]."""
        q = cast(Agents, online.agents).unroll(transitions, start=1).q[1:]
        action = greedy(q, transitions.avail_actions[1:])
        best = pick(q, action)
        value = cast(Mixer, online.mixer)(best, best, action, transitions.state[1:])
        shape = (len(last) - 1, last.shape[1])
        return lambda_return(
            transitions.reward[0].view(*shape, -1),
            transitions.terminated[0].view(shape),
            last,
            value[0].view(*shape, -1),
            self.gamma,
            self.trace,
        )
