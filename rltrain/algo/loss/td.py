"""Losses of a batch.

To add one: a callable of (online, target, batch, clock) that returns a ``LossResult``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rltrain.algo.network.packing import zero_outside
from rltrain.algo.return_settings import Returns, acted_error
from rltrain.algo.targets import greedy, huber, pick, rescale, unscale
from rltrain.common.keywords import FlatSettings, flat_keywords
from rltrain.common.number_types import Positive
from rltrain.interfaces import Loss, Mixer, Model
from rltrain.types import Batch, Clock, LossResult


class TDLoss(FlatSettings, Loss):
    """Squared or Huber TD error of the mixed values: DQN (T = N = 1), DRQN, R2D2, IQL, VDN, QMIX,
    QPLEX, Qatten; Munchausen DQN.

    The one-step target is r + γ (1 − terminated) F⁻(Q⁻(a*)), where a* is the best available action
    of the online agents (``double``; van Hasselt et al. 2016) or of the target agents; see
    ``Returns`` for other targets. Anything after a window's first ``last``, even NaN, affects
    neither the loss nor the gradients.

    Args:
        returns: the fields of ``Returns``.
        huber: errors above this count linearly; null = squared error.
        rescale: learn rescaled values h(x) with this epsilon (R2D2); null = no rescaling.

    | metric         | meaning: mean over learned transitions and value streams  |
    | -------------- | --------------------------------------------------------- |
    | `loss`         | (Huber) squared TD error × the window's weight            |
    | `td_error_abs` | absolute TD error                                         |
    | `q_taken_mean` | mixed value of the actions taken                          |
    | `target_mean`  | target                                                    |
    """

    @flat_keywords
    def __init__(
        self, *, returns: Returns, huber: Positive | None = None, rescale: Positive | None = None
    ) -> None:
        self.returns = returns
        self.huber, self.rescale = huber, rescale

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (learned transitions × M), priority [B] (a window's mean |TD error|)."""
        state = zero_outside(batch.state, batch.real)  # [T+1, B, S]
        looks_ahead = self.returns.double and batch.td_target is None
        stop = None if looks_ahead else len(batch.action)
        output = online.agents.unroll(batch, stop=stop)
        mixed = taken_value(online, output.q[:-1], batch, state[:-1])  # [T, B, M]
        td_target = batch.td_target
        if td_target is None:
            td_target = self._td_target(target, batch, output.q.detach()[1:], state)
        return td_result(online, mixed, td_target, batch, state[:-1], self.huber)

    @property
    def acted_error(self) -> Callable[..., Tensor] | None:
        """None with λ-returns and Munchausen terms, which need more than the values of the actions
        taken and of the best actions.
        """
        more = self.returns.trace is not None or self.returns.munchausen is not None
        return None if more else partial(acted_error, self.returns, self.rescale)

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
    @torch.no_grad()
    def _td_target(self, target: Model, batch: Batch, online_q: Tensor, state: Tensor) -> Tensor:
        """TD targets [T, B, M]."""
        returns, available = self.returns, batch.avail_actions[1:]
        q = target.agents.unroll(batch, start=returns.first).q
        best = greedy(online_q if returns.double else q[1:], available)  # [T, B, N]
        value = joint_value(target, q[1:], best, available, state[1:])
        taken = taken_value(target, q[:-1], batch, state[:-1]) if returns.corrected else None
        if self.rescale is None:
            return returns(batch, value, taken, q)
        value, q = unscale(value, self.rescale), unscale(q, self.rescale)
        taken = None if taken is None else unscale(taken, self.rescale)
        return rescale(returns(batch, value, taken, q), self.rescale)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def taken_value(model: Model, q: Tensor, batch: Batch, state: Tensor) -> Tensor:
    """The mixed value [T, B, M] of the actions taken: ``q`` [T, B, N, A], ``state`` [T, B, S]."""
    return joint_value(model, q, batch.action, batch.avail_actions[:-1], state)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def joint_value(
    model: Model, q: Tensor, action: Tensor, available: Tensor, state: Tensor
) -> Tensor:
    """The mixed value [T, B, M] of actions [T, B, N]."""
    mixer, chosen = model.mixer, pick(q, action)
    best = pick_greedy(q.detach(), available, mixer, chosen)
    return mixer(chosen, best, action, state)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def pick_greedy(q: Tensor, available: Tensor, mixer: Mixer, otherwise: Tensor) -> Tensor:
    """The values [T, B, N] of the best available actions, for mixers that read them."""
    if not mixer.uses_greedy:
        return otherwise
    return pick(q, greedy(q, available))


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
def real(x: Tensor, batch: Batch) -> Tensor:
    """``x`` [T, B, M] at learned transitions, else 0: NaN in padding must not reach a gradient."""
    return x if batch.learned is None else torch.where(batch.learned.unsqueeze(-1), x, 0)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def td_result(
    model: Model, mixed: Tensor, td_target: Tensor, batch: Batch, state: Tensor, delta: float | None
) -> LossResult:
    """(Huber) squared errors of values [T, B, M] and their targets; ``state`` [T, B, S]."""
    td_error = real(mixed - td_target, batch)
    error = td_error.detach().abs()
    loss = penalized(huber(td_error, delta), model, state)
    return total(loss, error, error, mixed, td_target, batch)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def penalized(loss: Tensor, model: Model, state: Tensor) -> Tensor:
    """``loss`` [T, B, M] with the mixer's ``penalty`` of states [T, B, S], if it has one."""
    penalty = model.mixer.penalty
    return loss if penalty is None else loss + penalty(state).unsqueeze(-1)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
def total(
    loss: Tensor,
    priority: Tensor,
    error: Tensor,
    q_taken: Tensor,
    target: Tensor,
    batch: Batch,
    **others: Tensor,
) -> LossResult:
    """Sums and means over the learned transitions of a batch.

    Args:
        loss: [T, B, M], summed with each window's weight.
        priority: [T, B, M], averaged over streams and, with ``batch.eta``, over each window's
            steps and their largest (Kapturowski et al. 2019, section 2.3).
        error, q_taken, target, others: [T, B, M], averaged for the metrics.
    """
    weight = batch.weight.unsqueeze(-1)
    n_learned = real(torch.ones_like(loss), batch).sum((0, 2))  # [B]
    loss_sum, count = (real(loss, batch) * weight).sum(), n_learned.sum()
    at_least_one = count.clamp(min=1)
    averaged = {
        "td_error_abs": error,
        "q_taken_mean": q_taken.detach(),
        "target_mean": target,
        **others,
    }
    metrics = {"loss": loss_sum.detach() / at_least_one}
    metrics |= {name: real(x, batch).sum() / at_least_one for name, x in averaged.items()}
    errors = real(priority.detach(), batch)
    of_window = errors.sum((0, 2)) / n_learned.clamp(min=1)  # [B]
    if batch.eta:
        of_window = of_window.lerp(errors.mean(2).amax(0), batch.eta)
    return LossResult(loss_sum, count, of_window, metrics)
