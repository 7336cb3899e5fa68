"""Weighted QMIX: a weighted fit of a monotonic value to targets of an unrestricted critic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, cast

import torch
from torch import Tensor, nn

from rltrain.algo.loss.td import penalized, real, taken_value, total
from rltrain.algo.mixer.qmix import need_team_state, two_layers
from rltrain.algo.network.head import linear_layers
from rltrain.algo.network.packing import zero_outside
from rltrain.algo.normalization import RunningNorm
from rltrain.algo.return_settings import Returns
from rltrain.algo.targets import greedy, huber, pick
from rltrain.common.keywords import FlatSettings, flat_keywords
from rltrain.common.number_types import Count, Positive, Probability
from rltrain.interfaces import Agents, Critic, Loss, Model
from rltrain.types import Batch, Clock, EnvSpec, LossResult


class CentralCritic(Critic):
    """Q̂*: separate agents and an unconstrained feed-forward mixer (Rashid et al. 2020, § 5.1).

    Args:
        make_agents: makes another network like the acting agents'.
        embed_dim: units of the mixer's layers.

    Raises:
        ValueError: more than one reward stream, or no global state.
    """

    def __init__(
        self, *, spec: EnvSpec, make_agents: Callable[[], Agents], embed_dim: Count
    ) -> None:
        super().__init__()
        need_team_state("CentralCritic", spec, "Type algo/loss=td.")
        self.agents, self.mixer = make_agents(), CentralMixer(spec, embed_dim)

    @property
    def obs_norm(self) -> RunningNorm | None:
        """The running observation statistics of its agents, if they normalize."""
        return self.agents.obs_norm


class CentralMixer(nn.Module):
    """MLP([s ; q̂_1 … q̂_N]) + V(s)."""

    def __init__(self, spec: EnvSpec, embed_dim: int) -> None:
        super().__init__()
        self.net = linear_layers(spec.state_dim + spec.n_agents, embed_dim, 1, 4)
        self.V = two_layers(spec.state_dim, embed_dim, 1)

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N], state [T, B, S] to [T, B, 1]."""
        value: Tensor = self.net(torch.cat([state, q], -1)) + self.V(state)
        return value


class WeightedLoss(FlatSettings, Loss):
    """w(s, u) (Q_tot − y)² + (Q̂* − y)² with y from the target network's Q̂* at the agents' next
    greedy actions (Rashid et al. 2020, sections 4 and 5).

    Optimistic weighting: w = 1 where Q_tot < y, else α. Central weighting: w = 1 where u is greedy
    or y > Q̂*(s, greedy), else α.

    Args:
        returns: the fields of ``Returns``.
        weighting: optimistic (OW-QMIX) or central (CW-QMIX).
        alpha: α, the weight of all other transitions.
        huber: errors above this count linearly; null = squared error.

    | metric         | meaning: mean over learned transitions, besides those of ``TDLoss`` |
    | -------------- | ------------------------------------------------------------------ |
    | `qmix_loss`    | w (Q_tot − y)²                                                     |
    | `central_loss` | (Q̂* − y)²                                                          |
    | `weight_mean`  | w                                                                  |
    """

    of_team = True

    @flat_keywords
    def __init__(
        self,
        *,
        returns: Returns,
        weighting: Literal["optimistic", "central"],
        alpha: Probability,
        huber: Positive | None = None,
    ) -> None:
        self.returns = returns
        self.weighting, self.alpha, self.huber = weighting, alpha, huber

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (learned transitions), priority [B] (a window's mean |TD error|)."""
        critic = cast(CentralCritic, online.critic)
        state = zero_outside(batch.state, batch.real)  # [T+1, B, S]
        q = online.agents.unroll(batch).q
        best = greedy(q.detach(), batch.avail_actions)  # [T+1, B, N]
        q_taken = taken_value(online, q[:-1], batch, state[:-1])  # [T, B, 1]
        central_q = critic.agents.unroll(unremembered(batch), stop=len(batch.action)).q[:-1]
        central = critic.mixer(pick(central_q, batch.action), state[:-1])
        td_target, q_best = self._td_target(target, batch, best, state)
        td_error = real(q_taken - td_target, batch)
        weight = self._weight(td_error.detach(), batch.action == best[:-1], td_target > q_best)
        qmix_loss = weight * huber(td_error, self.huber)
        central_loss = huber(real(central - td_target, batch), self.huber)
        return total(
            penalized(qmix_loss + central_loss, online, state[:-1]),
            td_error.detach().abs(),
            td_error.detach().abs(),
            q_taken,
            td_target,
            batch,
            qmix_loss=qmix_loss.detach(),
            central_loss=central_loss.detach(),
            weight_mean=weight,
        )

    def _weight(self, td_error: Tensor, is_best: Tensor, is_better: Tensor) -> Tensor:
        """w [T, B, 1]: td_error and is_better [T, B, 1], is_best [T, B, N]."""
        if self.weighting == "optimistic":
            matters = td_error < 0
        else:
            matters = is_best.all(-1, keepdim=True) | is_better
        return torch.where(matters, 1.0, self.alpha)

    @torch.no_grad()
    def _td_target(
        self, target: Model, batch: Batch, best: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """TD targets and the target network's Q̂* of the greedy actions, both [T, B, 1].

        Args:
            best: [T+1, B, N], the online agents' greedy actions.
        """
        critic, returns = cast(CentralCritic, target.critic), self.returns
        central_q = critic.agents.unroll(unremembered(batch)).q
        policy = None
        if returns.munchausen is not None or not returns.double:
            policy = target.agents.unroll(batch).q
        q_best = value = critic.mixer(pick(central_q, best), state)  # [T+1, B, 1]
        if policy is not None and not returns.double:
            following = greedy(policy, batch.avail_actions)
            value = critic.mixer(pick(central_q, following), state)
        taken = None
        if returns.corrected:
            taken = critic.mixer(pick(central_q[:-1], batch.action), state[:-1])
        return returns(batch, value[1:], taken, policy), q_best[:-1]


def unremembered(batch: Batch) -> Batch:
    """The batch without stored recurrent states, which are not those of a critic's agents."""
    return batch if batch.hidden is None else replace(batch, hidden=None)
