"""Munchausen DQN: the log-policy is added to the reward, the bootstrap is soft (Vieillard et al.
2020)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rltrain.algo.loss import result_of
from rltrain.algo.targets import n_step_target, pick
from rltrain.common.number_types import (
    Count,
    Positive,
    Probability,
    Real,
)
from rltrain.interfaces import Agents
from rltrain.types import (
    Batch,
    Clock,
    Model,
    Result,
)


class MunchausenLoss:
    """TD error to r + α [τ ln π(a|s)]_{l₀}^0 + γ Σ π(a'|s') (q(s', a') − τ ln π(a'|s')), with
    π = softmax(q / τ) of the target agents over the available actions (equation 2).

    Args:
        gamma: discount of one step.
        n_step: rewards summed before the bootstrap.
        alpha: weight of the log-policy; 0 = soft Q-learning.
        temperature: τ.
        floor: l₀, the least log-policy term.
        huber: errors beyond it count linearly; null = squared throughout.

    Raises:
        ValueError: ``floor`` is above 0, where no log-policy is.
    """

    per_agent = True  # no mixer

    def __init__(
        self,
        *,
        gamma: Probability,
        n_step: Count,
        alpha: Probability,
        temperature: Positive,
        floor: Real,
        huber: Positive | None,
    ) -> None:
        if floor > 0:
            raise ValueError(
                f"algo.loss.floor={floor:g} is above every log-policy: expected 0 or less, "
                "type for example algo.loss.floor=-1."
            )
        self.gamma, self.n_step, self.alpha = gamma, n_step, alpha
        self.temperature, self.floor, self.huber = temperature, floor, huber

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """Loss sum, count (learned transitions × N), priority [B] (a window's mean |TD error|)."""
        output = cast(Agents, online.agents).unroll(batch, stop=len(batch.action))
        q_taken = pick(output.q[:-1], batch.action)  # [T, B, N]
        td_target = self._td_target(target, batch)
        return result_of(q_taken, td_target, batch, self.huber)

    @torch.no_grad()
    def _td_target(self, target: Model, batch: Batch) -> Tensor:
        """TD targets [T, B, N]."""
        q = cast(Agents, target.agents).unroll(batch).q  # [T+1, B, N, A]
        logits = q.masked_fill(~batch.avail_actions, -torch.inf) / self.temperature
        log_policy = self.temperature * logits.log_softmax(-1)  # -inf where not available
        policy = logits.softmax(-1)
        soft = torch.where(batch.avail_actions, policy * (q - log_policy), 0).sum(-1)  # [T+1, B, N]
        bonus = pick(log_policy[:-1], batch.action).clamp(self.floor, 0)
        reward = batch.reward + self.alpha * bonus
        return n_step_target(
            reward, batch.terminated, batch.last, soft[1:], self.gamma, self.n_step
        )
