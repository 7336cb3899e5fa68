"""Losses that learn the distribution of returns: categorical (C51) and quantile (QR-DQN, IQN)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rltrain.algo.loss.td import total
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.network.packing import zero_outside
from rltrain.algo.targets import at_step, greedy, huber
from rltrain.common.keywords import FlatSettings, flat_keywords
from rltrain.common.number_types import Count, Flag, NonNegative, Probability
from rltrain.interfaces import Loss, Model
from rltrain.types import Batch, Clock, LossResult, Output


# twin: kernels/layers/distribution_kernel.py
@dataclass(frozen=True, kw_only=True)
class _Bellman:
    """Common to both losses: distributions of the actions taken and of the best next actions."""

    gamma: Probability
    double: Flag
    n_step: Count
    distribution: Distribution

    @property
    def chooses_apart(self) -> bool:
        """Whether actions are chosen with other quantile levels than those trained."""
        return self.double and self.distribution.implicit

    def taken(self, online: Model, batch: Batch) -> tuple[Output, Tensor]:
        """The online agents' outputs, and the outputs of the actions taken [T, B, N, K]."""
        stop = None if self.double and not self.chooses_apart else len(batch.action)
        output = online.agents.unroll(batch, stop=stop)
        assert output.dist is not None, "the agents give no distribution"
        return output, taken_outputs(output.dist[:-1], batch.action)

    @torch.no_grad()
    def target(
        self, online: Model, target: Model, batch: Batch, output: Output
    ) -> tuple[Tensor, Tensor, Tensor]:
        """reward_sum and discount [T, B, N], and the target agents' outputs [T, B, N, K] for the
        next action, n steps ahead.
        """
        ahead = target.agents.unroll(batch, start=1)
        chooser = output if self.double else ahead
        if self.chooses_apart:
            chooser = online.agents.unroll(batch, start=1)
        best = greedy(chooser.q, batch.avail_actions)  # [T+1, B, N]
        assert ahead.dist is not None
        dist = taken_outputs(ahead.dist, best)
        # NaN in the padding would reach gradients through products, despite later masks
        reward = zero_outside(batch.reward, None if batch.real is None else batch.real[1:])
        step = n_step_bootstrap(reward, batch.terminated, batch.last, self.gamma, self.n_step)
        shape = batch.action.shape
        reward_sum = step.reward_sum.expand(shape)  # R = 1 or N
        return reward_sum, step.discount.unsqueeze(-1).expand(shape), at_step(dist, step.step)


# twin: kernels/layers/distribution_kernel.py
def taken_outputs(dist: Tensor, action: Tensor) -> Tensor:
    """[T, B, N, A, K] at actions [T, B, N]: [T, B, N, K]."""
    index = action[..., None, None].expand(*action.shape, 1, dist.shape[-1])
    return dist.gather(-2, index).squeeze(-2)


class CategoricalLoss(FlatSettings, Loss):
    """Cross entropy with the projected n-step target distribution (C51; Bellemare et al. 2017,
    algorithm 1); the priority is the cross entropy (in Rainbow, Hessel et al. 2018, without the
    entropy of the target).

    Adds the metric `clipped_target_mass`: the probability mass of the targets outside the support,
    which is moved to its nearest edge.

    Raises:
        ValueError: the distribution is not categorical.
    """

    per_agent = True  # no mixer

    @flat_keywords
    def __init__(self, *, bellman: _Bellman) -> None:
        distribution = bellman.distribution
        if distribution.support is None:
            raise ValueError(
                "the categorical loss needs algo/distribution=categorical, got "
                f"{type(distribution).__name__.lower()}."
            )
        self.bellman = bellman

    # twin: kernels/layers/distribution_kernel.py
    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (learned transitions × N), priority [B]."""
        output, logits = self.bellman.taken(online, batch)
        reward, discount, ahead = self.bellman.target(online, target, batch, output)
        assert self.distribution.support is not None
        support = self.distribution.support.to(logits.device)
        prob = ahead.softmax(-1)
        target_prob = categorical_projection(prob, support, reward, discount)
        clipped = clipped_mass(prob, support, reward, discount)
        loss = -(target_prob * logits.log_softmax(-1)).sum(-1)  # [T, B, N]
        q, target_q = logits.detach().softmax(-1) @ support, target_prob @ support
        error = (q - target_q).abs()
        return total(loss, loss, error, q, target_q, batch, clipped_target_mass=clipped)


# twin: kernels/layers/distribution_kernel.py
def clipped_mass(prob: Tensor, support: Tensor, reward_sum: Tensor, discount: Tensor) -> Tensor:
    """The fraction [...] of ``prob`` [..., K] whose reward_sum + discount · Z [...] is outside the
    support.
    """
    moved = reward_sum.unsqueeze(-1) + discount.unsqueeze(-1) * support
    rounding = 1e-3 * (support[1] - support[0])
    outside = (moved < support[0] - rounding) | (moved > support[-1] + rounding)
    return (prob * outside).sum(-1)


class QuantileLoss(FlatSettings, Loss):
    """Quantile Huber loss, summed over the learned quantiles and averaged over the target's
    (QR-DQN, Dabney et al. 2018a, algorithm 1; IQN, Dabney et al. 2018b, equation 3); the priority
    is the mean absolute error of all pairs. IQN chooses the next action with K levels of its own
    (section 3), not with the N' levels of its value.

    Raises:
        ValueError: the distribution has no quantiles.
    """

    per_agent = True  # no mixer

    @flat_keywords
    def __init__(self, *, kappa: NonNegative, bellman: _Bellman) -> None:
        distribution = bellman.distribution
        if distribution.tau is None and not distribution.implicit:
            raise ValueError(
                "the quantile loss needs algo/distribution=quantile or implicit_quantile, got "
                f"{type(distribution).__name__.lower()}."
            )
        self.kappa, self.bellman = kappa, bellman

    # twin: kernels/layers/distribution_kernel.py
    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (learned transitions × N), priority [B]."""
        output, quantile = self.bellman.taken(online, batch)  # [T, B, N, K]
        reward, discount, ahead = self.bellman.target(online, target, batch, output)
        td_target = reward.unsqueeze(-1) + discount.unsqueeze(-1) * ahead  # [T, B, N, K']
        error = td_target.unsqueeze(-2) - quantile.unsqueeze(-1)  # [T, B, N, K, K']
        tau = output.tau[:-1] if output.tau is not None else self.distribution.tau
        assert tau is not None
        loss = quantile_huber(error, tau.to(error.device), self.kappa).mean(-1).sum(-1)
        size = error.detach().abs().mean((-1, -2))
        q, target_q = quantile.detach().mean(-1), td_target.mean(-1)
        return total(loss, size, (q - target_q).abs(), q, target_q, batch)


class Bootstrap(NamedTuple):
    """An n-step target in parts: ``reward_sum + discount * X[step]`` for any bootstrap X."""

    reward_sum: Tensor  # [T, B, R]
    discount: Tensor  # [T, B], 0 where the episode terminates first
    step: Tensor  # [T, B] int64, 1 … T


# twin: kernels/layers/distribution_kernel.py
def n_step_bootstrap(
    reward: Tensor, terminated: Tensor, last: Tensor, gamma: float, n_step: int
) -> Bootstrap:
    """The parts of ``n_step_target``, for bootstraps that cannot be summed."""
    stop = last[1:]  # [T, B]
    discounts = torch.where(terminated, 0.0, gamma).to(reward.dtype)
    own = torch.arange(1, len(stop) + 1, device=stop.device).unsqueeze(-1).expand_as(stop)
    summed, discount, step = reward, discounts, own
    for _ in range(n_step - 1):
        further = torch.cat([summed[1:], torch.zeros_like(summed[-1:])])
        summed = reward + discounts.unsqueeze(-1) * further.masked_fill(stop.unsqueeze(-1), 0)
        discount = discounts * torch.cat([discount[1:], discount.new_ones(1, stop.shape[1])]).where(
            ~stop, torch.ones_like(discount)
        )
        step = torch.cat([step[1:], own[-1:]]).where(~stop, own)
    return Bootstrap(summed, discount, step)


# twin: kernels/layers/distribution_kernel.py
def categorical_projection(
    prob: Tensor, support: Tensor, reward_sum: Tensor, discount: Tensor
) -> Tensor:
    """The distribution of reward_sum + discount · Z on the atoms of Z (Bellemare et al. 2017,
    algorithm 1).

    Each moved atom, clipped to the support, splits its probability between the two nearest atoms
    in proportion to proximity.

    Args:
        prob: [..., K].
        support: [K], evenly spaced.
        reward_sum, discount: [...].

    Returns:
        [..., K]
    """
    moved = reward_sum.unsqueeze(-1) + discount.unsqueeze(-1) * support
    moved = moved.clamp(support[0], support[-1])
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    place = (moved - support[0]) / spacing  # position on the support, in atoms
    below = place.floor().nan_to_num(0).clamp(0, len(support) - 2)
    upper, below = prob * (place - below), below.long()
    return (
        torch.zeros_like(prob)
        .scatter_add_(-1, below, prob - upper)
        .scatter_add_(-1, below + 1, upper)
    )


# twin: kernels/layers/distribution_kernel.py
def quantile_huber(error: Tensor, tau: Tensor, kappa: float) -> Tensor:
    """|τ − 1{u < 0}| L_κ(u) / κ for errors u = target − quantile (Dabney et al. 2018a, equation
    10); κ = 0 gives the plain quantile loss. ``error`` [..., K, K'], ``tau`` [..., K].
    """
    side = (tau.unsqueeze(-1) - (error.detach() < 0).to(error.dtype)).abs()
    return side * (huber(error, kappa) / kappa if kappa else error.abs())
