"""Targets and what they are made of: pure functions of tensors, one per equation."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


def pick(q: Tensor, action: Tensor) -> Tensor:
    """The values of the given actions: ``q`` [..., A], ``action`` [...] int64 to [...]."""
    return q.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def greedy(q: Tensor, avail_actions: Tensor) -> Tensor:
    """The best available action, ties to the lowest: [..., A] and [..., A] bool to [...] int64."""
    return q.masked_fill(~avail_actions, -torch.inf).argmax(-1)


def n_step_target(
    reward: Tensor, terminated: Tensor, last: Tensor, value: Tensor, gamma: float, n_step: int
) -> Tensor:
    """n-step returns that pass neither an episode's nor the window's end.

    y¹_t = r_t + γ (1 − terminated_t) X_{t+1} and yᵏ_t = r_t + γ (1 − terminated_t) Z_{t+1}, where
    Z_{t+1} is X_{t+1} if step t + 1 is ``last`` or the window's end, else yᵏ⁻¹_{t+1}: the discount
    is that of the steps really summed (Sutton & Barto 2018, equation 7.1).

    Args:
        reward: [T, B, R], R = 1 or M.
        terminated: [T, B] bool.
        last: [T+1, B] bool.
        value: [T, B, M], the bootstrap X of steps 1 … T.
        gamma: discount of one step.
        n_step: most steps summed, 1 or more.

    Returns:
        [T, B, M]
    """
    stop = last[1:].unsqueeze(-1)  # [T, B, 1]
    discounts = torch.where(terminated, 0.0, gamma).to(value.dtype).unsqueeze(-1)  # [T, B, 1]
    target = reward + discounts * value
    for _ in range(n_step - 1):
        shifted = torch.cat([target[1:], value[-1:]])  # the window's end bootstraps
        target = reward + discounts * torch.where(stop, value, shifted)
    return target


class Bootstrap(NamedTuple):
    """An n-step target in parts: ``reward_sum + discount * X[step]`` for any bootstrap X."""

    reward_sum: Tensor  # [T, B, R]
    discount: Tensor  # [T, B], 0 where the episode terminates first
    step: Tensor  # [T, B] int64, 1 … T


def n_step_bootstrap(
    reward: Tensor, terminated: Tensor, last: Tensor, gamma: float, n_step: int
) -> Bootstrap:
    """The parts of ``n_step_target``, for bootstraps that cannot be added up on the way."""
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


def at_step(x: Tensor, step: Tensor) -> Tensor:
    """``x`` [T+1, B, …] at steps [T', B]: [T', B, …]."""
    return x[step, torch.arange(step.shape[1], device=step.device)]


def lambda_return(
    reward: Tensor,
    terminated: Tensor,
    last: Tensor,
    value: Tensor,
    gamma: float,
    trace: float,
) -> Tensor:
    """Q(λ) returns of a stream of steps that runs through episodes (Gallici et al. 2025, equation
    6, after Peng & Williams 1996).

    y_t = r_t + γ (1 − terminated_t) ((1 − λ) X_{t+1} + λ y_{t+1}), with X instead of y where step
    t + 1 closes its episode or the stream ends. Meaningless where ``last[t]`` is set.

    Args:
        reward: [T, B, R].
        terminated: [T, B] bool.
        last: [T+1, B] bool.
        value: [T, B, M], the bootstrap X of steps 1 … T.
        gamma, trace: discount and λ.

    Returns:
        [T, B, M]
    """
    discounts = torch.where(terminated, 0.0, gamma).to(value.dtype).unsqueeze(-1)
    stop = last[1:].unsqueeze(-1)
    target = torch.empty_like(value)
    following = value[-1]
    for t in range(len(value) - 1, -1, -1):
        mixed = torch.lerp(value[t], following, trace)
        target[t] = following = reward[t] + discounts[t] * torch.where(stop[t], value[t], mixed)
    return target


def categorical_projection(
    prob: Tensor, support: Tensor, reward_sum: Tensor, discount: Tensor
) -> Tensor:
    """The distribution of reward_sum + discount · Z on the atoms of Z (Bellemare et al. 2017,
    algorithm 1).

    Every moved atom, clipped to the support, gives its probability to the two atoms around it, in
    proportion to nearness: m_i = Σ_j p_j max(0, 1 − |T z_j − z_i| / Δz).

    Args:
        prob: [..., K].
        support: [K], evenly spaced.
        reward_sum, discount: [...].

    Returns:
        [..., K]
    """
    spacing = support[1] - support[0]
    moved = (reward_sum.unsqueeze(-1) + discount.unsqueeze(-1) * support).clamp(
        support[0], support[-1]
    )
    nearness = 1 - (moved.unsqueeze(-2) - support.unsqueeze(-1)).abs() / spacing  # [..., K, K]
    return (nearness.clamp_(min=0) @ prob.unsqueeze(-1)).squeeze(-1)


def huber(error: Tensor, delta: float | None) -> Tensor:
    """½ e² up to ``delta``, linear beyond (Huber 1964); e² without one, as PyMARL has it."""
    if delta is None:
        return error.square()
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def quantile_huber(error: Tensor, tau: Tensor, kappa: float) -> Tensor:
    """|τ − 1{u < 0}| L_κ(u) / κ for errors u = target − quantile (Dabney et al. 2018a, equation
    10); κ = 0 gives the plain quantile loss. ``error`` [..., K, K'], ``tau`` [..., K].
    """
    side = (tau.unsqueeze(-1) - (error.detach() < 0).to(error.dtype)).abs()
    return side * (huber(error, kappa) / kappa if kappa else error.abs())


def rescale(x: Tensor, epsilon: float) -> Tensor:
    """h(x) = sign(x) (√(|x| + 1) − 1) + ε x (Pohlen et al. 2018, proposition A.2)."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x


def unscale(x: Tensor, epsilon: float) -> Tensor:
    """The inverse of ``rescale``; it needs ε > 0."""
    root = (1 + 4 * epsilon * (x.abs() + 1 + epsilon)).sqrt()
    return x.sign() * (((root - 1) / (2 * epsilon)).square() - 1)
