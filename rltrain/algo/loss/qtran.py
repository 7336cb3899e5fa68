"""QTRAN-base: an unrestricted joint value, and agents whose sum matches it at greedy actions."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from rltrain.algo.loss.td import joint_value, penalized, real, taken_value, total
from rltrain.algo.mixer.qmix import need_team_state, two_layers
from rltrain.algo.network.head import linear_layers
from rltrain.algo.network.packing import zero_outside
from rltrain.algo.return_settings import Returns
from rltrain.algo.targets import greedy, huber
from rltrain.common.keywords import FlatSettings, flat_keywords
from rltrain.common.number_types import Count, NonNegative, Positive
from rltrain.interfaces import Critic, Loss, Model
from rltrain.types import Batch, Clock, EnvSpec, LossResult


class QTranCritic(Critic):
    """Joint value Q_jt(s, h, u) and state value V(s) (Son et al. 2019, section 4.1).

    Q_jt reads the state and the sum over agents of an encoding of [hidden state ; action].

    Args:
        hidden_dim: H of the agents.
        embed_dim: units of both networks.

    Raises:
        ValueError: more than one reward stream, or no global state.
    """

    def __init__(self, *, spec: EnvSpec, hidden_dim: int, embed_dim: Count) -> None:
        super().__init__()
        need_team_state("QTranCritic", spec, "Type algo/loss=td.")
        self.n_actions, size = spec.n_actions, hidden_dim + spec.n_actions
        self.Q = linear_layers(spec.state_dim + size, embed_dim, 1, 3)
        self.V = linear_layers(spec.state_dim, embed_dim, 1, 3)
        self.action_encoding = two_layers(size, size, size)

    def forward(self, hidden: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """hidden [T, B, N, H], action [T, B, N], state [T, B, S] to Q_jt [T, B, 1]."""
        one_hot = F.one_hot(action, self.n_actions).to(hidden.dtype)
        encoded = self.action_encoding(torch.cat([hidden, one_hot], -1)).sum(-2)
        q: Tensor = self.Q(torch.cat([state, encoded], -1))
        return q


class QTranLoss(FlatSettings, Loss):
    """The three losses of QTRAN-base (Son et al. 2019, equations 4 to 6). Q' is the agents' mixed
    value (their sum), ū their greedy joint action.

    L_td = (Q_jt(u) − y)², L_opt = (Q'(ū) − Q_jt(ū) + V)², L_nopt = min(0, Q'(u) − Q_jt(u) + V)²;
    no gradient flows through Q_jt in the last two.

    Args:
        returns: the fields of ``Returns``.
        opt_weight, nopt_weight: weights of L_opt and L_nopt.
        huber: errors of L_td above this count linearly; null = squared error.

    | metric      | meaning: mean over learned transitions, besides those of ``TDLoss`` |
    | ----------- | ------------------------------------------------------------------ |
    | `td_loss`   | L_td                                                               |
    | `opt_loss`  | L_opt                                                              |
    | `nopt_loss` | L_nopt                                                             |
    | `v_mean`    | V                                                                  |
    """

    of_team = True

    @flat_keywords
    def __init__(
        self,
        *,
        returns: Returns,
        opt_weight: NonNegative,
        nopt_weight: NonNegative,
        huber: Positive | None = None,
    ) -> None:
        self.returns = returns
        self.opt_weight, self.nopt_weight, self.huber = opt_weight, nopt_weight, huber

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (learned transitions), priority [B] (a window's mean |TD error|)."""
        critic = cast(QTranCritic, online.critic)
        state = zero_outside(batch.state, batch.real)  # [T+1, B, S]
        output = online.agents.unroll(batch)
        q, hidden, now = output.q[:-1], output.hidden[:-1], state[:-1]
        best = greedy(output.q.detach(), batch.avail_actions)  # [T+1, B, N]
        q_taken = critic(hidden, batch.action, now)  # [T, B, 1]
        td_target = self._td_target(target, batch, best[1:], state)
        with torch.no_grad():
            q_best = critic(hidden, best[:-1], now)
        v = critic.V(now)
        opt = joint_value(online, q, best[:-1], batch.avail_actions[:-1], now) - q_best + v
        nopt = (taken_value(online, q, batch, now) - q_taken.detach() + v).clamp(max=0)
        td, opt, nopt = (real(x, batch) for x in (q_taken - td_target, opt, nopt))
        losses = huber(td, self.huber), opt.square(), nopt.square()
        loss = losses[0] + self.opt_weight * losses[1] + self.nopt_weight * losses[2]
        return total(
            penalized(loss, online, now),
            td.detach().abs(),
            td.detach().abs(),
            q_taken,
            td_target,
            batch,
            td_loss=losses[0].detach(),
            opt_loss=losses[1].detach(),
            nopt_loss=losses[2].detach(),
            v_mean=v.detach(),
        )

    @torch.no_grad()
    def _td_target(self, target: Model, batch: Batch, best: Tensor, state: Tensor) -> Tensor:
        """TD targets [T, B, 1]; ``best`` [T, B, N] are the online agents' greedy actions."""
        critic, returns = cast(QTranCritic, target.critic), self.returns
        output = target.agents.unroll(batch, start=returns.first)
        q, hidden = output.q, output.hidden
        best = best if returns.double else greedy(q[1:], batch.avail_actions[1:])
        value = critic(hidden[1:], best, state[1:])
        taken = critic(hidden[:-1], batch.action, state[:-1]) if returns.corrected else None
        return returns(batch, value, taken, q)
