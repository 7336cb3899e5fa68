"""Losses of a batch.

A new one is a callable of (online, target, batch, clock) that gives a ``Result``.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rltrain.algo.network.packing import zero_outside
from rltrain.algo.targets import greedy, huber, n_step_target, pick, rescale, unscale
from rltrain.common.number_types import Count, Flag, Positive, Probability
from rltrain.interfaces import Agents, Mixer
from rltrain.types import Batch, Clock, Model, Result


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

    | metric         | meaning: mean over learned transitions and value streams  |
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
        """Loss sum, count (learned transitions × M), priority [B] (a window's mean |TD error|)."""
        state = zero_outside(batch.state, batch.real)  # [T+1, B, S]
        looks_ahead = self.double and batch.td_target is None
        stop = None if looks_ahead else len(batch.action)
        output = cast(Agents, online.agents).unroll(batch, stop=stop)
        mixer, q = cast(Mixer, online.mixer), output.q[:-1]
        q_taken = pick(q, batch.action)
        greedy_q = pick_greedy(q.detach(), batch.avail_actions[:-1], mixer, q_taken)
        mixed = mixer(q_taken, greedy_q, batch.action, state[:-1])  # [T, B, M]
        td_target = batch.td_target
        if td_target is None:
            td_target = self._td_target(target, batch, output.q.detach()[1:], state[1:])
        return result_of(mixed, td_target, batch, self.huber)

    @torch.no_grad()
    def _td_target(self, target: Model, batch: Batch, online_q: Tensor, state: Tensor) -> Tensor:
        """TD targets [T, B, M]."""
        mixer, available = cast(Mixer, target.mixer), batch.avail_actions[1:]
        q = cast(Agents, target.agents).unroll(batch, start=1).q[1:]
        best = greedy(online_q if self.double else q, available)  # [T, B, N]
        chosen = pick(q, best)
        greedy_q = pick_greedy(q, available, mixer, chosen) if self.double else chosen
        value = mixer(chosen, greedy_q, best, state)
        if self.rescale is not None:
            value = unscale(value, self.rescale)
        td_target = n_step_target(
            batch.reward, batch.terminated, batch.last, value, self.gamma, self.n_step
        )
        return td_target if self.rescale is None else rescale(td_target, self.rescale)


def pick_greedy(q: Tensor, available: Tensor, mixer: Mixer, otherwise: Tensor) -> Tensor:
    """The values [T, B, N] of the best available actions, for mixers that read them."""
    if not mixer.uses_greedy:
        return otherwise
    return pick(q, greedy(q, available))


def result_of(q_taken: Tensor, td_target: Tensor, batch: Batch, delta: float | None) -> Result:
    """(Huber) squared errors of values [T, B, M] and their targets."""
    td_error = q_taken - td_target
    if batch.learned is not None:  # NaN in the padding must not reach a gradient
        td_error = torch.where(batch.learned.unsqueeze(-1), td_error, 0)
    error = td_error.detach().abs()
    return total(huber(td_error, delta), error, error, q_taken, td_target, batch)


def total(
    loss: Tensor,
    priority: Tensor,
    error: Tensor,
    q_taken: Tensor,
    target: Tensor,
    batch: Batch,
    **others: Tensor,
) -> Result:
    """Sums and means over the transitions of a batch that are learned from.

    Args:
        loss: [T, B, M], its sum weighted by the window's weight.
        priority: [T, B, M], averaged over streams and, with ``batch.eta``, over each window's
            steps and their largest (Kapturowski et al. 2019, section 2.3).
        error, q_taken, target, others: [T, B, M], averaged for the metrics.
    """
    learned, weight = batch.learned, batch.weight.unsqueeze(-1)
    if learned is None:
        n_streams, n_steps = loss.shape[-1], len(loss)
        n_learned = torch.full_like(batch.weight, n_streams * n_steps)  # [B]

        def kept(x: Tensor) -> Tensor:
            return x
    else:
        marks = learned.unsqueeze(-1)
        n_learned = learned.sum(0) * loss.shape[-1]  # [B]

        def kept(x: Tensor) -> Tensor:
            return torch.where(marks, x, 0)

    loss_sum, count = (kept(loss) * weight).sum(), n_learned.sum()
    at_least_one = count.clamp(min=1)
    averaged = {
        "td_error_abs": error,
        "q_taken_mean": q_taken.detach(),
        "target_mean": target,
        **others,
    }
    metrics = {"loss": loss_sum.detach() / at_least_one}
    metrics |= {name: kept(x).sum() / at_least_one for name, x in averaged.items()}
    errors = kept(priority.detach())
    of_window = errors.sum((0, 2)) / n_learned.clamp(min=1)  # [B]
    if batch.eta:
        of_window = of_window.lerp(errors.mean(2).amax(0), batch.eta)
    return Result(loss_sum, count, of_window, metrics)
