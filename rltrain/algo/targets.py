"""Targets and their parts: pure functions of tensors, one per equation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def pick(q: Tensor, action: Tensor) -> Tensor:
    """Values of the given actions: ``q`` [..., A], ``action`` [...] int64 to [...]."""
    return q.gather(-1, action.unsqueeze(-1)).squeeze(-1)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
def greedy(q: Tensor, avail_actions: Tensor) -> Tensor:
    """The best available action, ties to the lowest: [..., A] and [..., A] bool to [...] int64."""
    return q.masked_fill(~avail_actions, -torch.inf).argmax(-1)


# twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
def n_step_target(
    reward: Tensor, terminated: Tensor, last: Tensor, value: Tensor, gamma: float, n_step: int
) -> Tensor:
    """n-step returns, cut at the end of an episode or window.

    y¹_t = r_t + γ (1 − terminated_t) X_{t+1} and yᵏ_t = r_t + γ (1 − terminated_t) Z_{t+1}, where
    Z_{t+1} is X_{t+1} if step t + 1 is ``last`` or the window's end, else yᵏ⁻¹_{t+1}: the discount
    matches the number of steps summed (Sutton & Barto 2018, equation 7.1).

    Args:
        reward: [T, B, R], R = 1 or M.
        terminated: [T, B] bool.
        last: [T+1, B] bool.
        value: [T, B, M], the bootstrap X of steps 1 … T.
        gamma: discount per step.
        n_step: maximum number of steps summed, at least 1.

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


# twin: kernels/layers/distribution_kernel.py
def at_step(x: Tensor, step: Tensor) -> Tensor:
    """``x`` [T+1, B, …] at ``step`` [T', B], as [T', B, …]."""
    return x[step, torch.arange(step.shape[1], device=step.device)]


# twin: kernels/recurrent/team_step.py
def lambda_return(
    reward: Tensor,
    terminated: Tensor,
    last: Tensor,
    value: Tensor,
    gamma: float,
    trace: float,
    baseline: Tensor | None = None,
) -> Tensor:
    """λ-returns of windows, or of a stream of steps that spans several episodes.

    y_t = r_t + γ (1 − terminated_t) (X_{t+1} + λ (y_{t+1} − C_{t+1})), with X alone where step
    t + 1 closes its episode or the stream ends. C = X gives TD(λ) and Peng's Q(λ) (Peng & Williams
    1996; Gallici et al. 2025, equation 6); C = Q of the action taken gives Q(λ) with the off-policy
    correction (Harutyunyan et al. 2016, equation 5). Meaningless where ``last[t]`` is set.

    Args:
        reward: [T, B, R].
        terminated: [T, B] bool.
        last: [T+1, B] bool.
        value: [T, B, M], the bootstrap X of steps 1 … T.
        gamma, trace: discount and λ.
        baseline: [T, B, M], C of steps 1 … T, X where the window ends; None: X.

    Returns:
        [T, B, M]
    """
    discounts = torch.where(terminated, 0.0, gamma).to(value.dtype).unsqueeze(-1)
    stop = last[1:].unsqueeze(-1)
    target = torch.empty_like(value)
    following = value[-1]
    for t in range(len(value) - 1, -1, -1):
        if baseline is None:
            mixed = torch.lerp(value[t], following, trace)
        else:
            mixed = value[t] + trace * (following - baseline[t])
        target[t] = following = reward[t] + discounts[t] * torch.where(stop[t], value[t], mixed)
    return target


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
def huber(error: Tensor, delta: float | None) -> Tensor:
    """½ e² up to ``delta``, linear beyond (Huber 1964); e² without one, as PyMARL has it."""
    if delta is None:
        return error.square()
    return F.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def rescale(x: Tensor, epsilon: float) -> Tensor:
    """h(x) = sign(x) (√(|x| + 1) − 1) + ε x (Pohlen et al. 2018, proposition A.2)."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x


def unscale(x: Tensor, epsilon: float) -> Tensor:
    """The inverse of ``rescale``; it needs ε > 0."""
    root = (1 + 4 * epsilon * (x.abs() + 1 + epsilon)).sqrt()
    return x.sign() * (((root - 1) / (2 * epsilon)).square() - 1)
