"""Targets and what they are made of: pure functions of tensors, one per equation."""

from __future__ import annotations

import torch
from torch import Tensor


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
    Z_{t+1} is X_{t+1} if slot t + 1 is ``last`` or the window's end, else yᵏ⁻¹_{t+1}: the discount
    is that of the steps really summed (Sutton & Barto 2018, equation 7.1).

    Args:
        reward: [T, B, R], R = 1 or M.
        terminated: [T, B] bool.
        last: [T+1, B] bool.
        value: [T, B, M], the bootstrap X of slots 1 … T.
        gamma: discount of one step.
        n_step: most steps summed, 1 or more.

    Returns:
        [T, B, M]
    """
    stop = last[1:].unsqueeze(-1)  # [T, B, 1]
    goes_on = torch.where(terminated, 0.0, gamma).to(value.dtype).unsqueeze(-1)  # [T, B, 1]
    target = reward + goes_on * value
    for _ in range(n_step - 1):
        shifted = torch.cat([target[1:], value[-1:]])  # the window's end bootstraps
        target = reward + goes_on * torch.where(stop, value, shifted)
    return target
