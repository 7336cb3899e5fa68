"""Targets of values: n-step returns, TD(λ) and Q(λ), each also with the Munchausen term; and TD
errors from the values computed while acting, the initial priorities of Ape-X.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rltrain.algo.targets import lambda_return, n_step_target, pick, rescale, unscale
from rltrain.common.number_types import Count, Flag, Positive, Probability, Real
from rltrain.types import Batch


@dataclass(frozen=True, kw_only=True)
class Returns:
    """How rewards and bootstrap values X become targets.

    Without ``trace``, targets are n-step returns. With it, they are λ-returns whose recursion
    starts at each episode's own end: TD(λ) with the greedy value as X, which is Peng's Q(λ) (Peng &
    Williams 1996), or, if ``corrected``, Q(λ) with the off-policy correction (Harutyunyan et al.
    2016). With ``munchausen``, the scaled log-policy is added to every reward and X is soft
    (Vieillard et al. 2020); a team's log-policy is the sum of its agents' log-policies.

    Raises:
        ValueError: ``trace`` with ``n_step`` > 1, ``corrected`` without ``trace``, ``munchausen``
            with ``double``, or a ``floor`` above 0.
    """

    gamma: Probability  # discount per step
    double: Flag  # the online agents choose the next action
    n_step: Count  # rewards summed before the bootstrap
    trace: Probability | None = None  # λ; None: n-step returns
    corrected: Flag = False  # Q(λ) with the off-policy correction, not Peng's
    munchausen: Probability | None = None  # weight of the log-policy; None: off
    temperature: Positive = 0.03  # of the softmax policy
    floor: Real = -1.0  # lower bound of the log-policy term

    def __post_init__(self) -> None:
        if self.trace is not None and self.n_step > 1:
            raise ValueError(
                f"algo.loss.trace={self.trace:g} and algo.loss.n_step={self.n_step}: "
                "lambda-returns mix all numbers of steps. Type algo.loss.n_step=1, or "
                "algo.loss.trace=null."
            )
        if self.trace is None and self.corrected:
            raise ValueError(
                "algo.loss.corrected=true is the correction of Q(lambda): type a lambda as well, "
                "such as algo.loss.trace=0.6, or algo.loss.corrected=false."
            )
        if self.munchausen is not None and self.double:
            raise ValueError(
                f"algo.loss.munchausen={self.munchausen:g} and algo.loss.double=true: the soft "
                "value is the target network's own, over its policy, so that the online network "
                "chooses no action. Type algo.loss.double=false, or algo.loss.munchausen=null."
            )
        if self.floor > 0:
            raise ValueError(
                f"algo.loss.floor={self.floor:g} is above every log-policy: expected 0 or less, "
                "type for example algo.loss.floor=-1."
            )

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
    @property
    def first(self) -> int:
        """The first step whose target values are needed."""
        return 0 if self.corrected or self.munchausen is not None else 1

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_error_kernel.py
    def __call__(
        self, batch: Batch, value: Tensor, taken: Tensor | None = None, q: Tensor | None = None
    ) -> Tensor:
        """Targets [T, B, M].

        Args:
            batch: rewards and episode ends.
            value: [T, B, M], the bootstrap X of steps 1 … T.
            taken: [T, B, M], the target network's values of the actions taken at steps 0 … T-1,
                used if ``corrected``.
            q: [T+1, B, N, A], values whose softmax is the policy, used with ``munchausen``.
        """
        reward = batch.reward
        if self.munchausen is not None:
            assert q is not None
            log_policy, gap = self._soft(q, batch)
            if value.shape[-1] != q.shape[2]:  # one stream of the team
                log_policy, gap = (x.sum(-1, keepdim=True) for x in (log_policy, gap))
            reward, value = reward + self.munchausen * log_policy, value + gap
        episodes = reward, batch.terminated, batch.last
        if self.trace is None:
            return n_step_target(*episodes, value, self.gamma, self.n_step)
        baseline = None
        if self.corrected:
            assert taken is not None
            baseline = torch.cat([taken[1:], value[-1:]])
        return lambda_return(*episodes, value, self.gamma, self.trace, baseline)

    def _soft(self, q: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Clipped τ ln π(u) of the actions taken, and τ ln Σ exp(q / τ) − max q of the next steps,
        both [T, B, N]: the soft value is Σ π (q − τ ln π) = τ ln Σ exp(q / τ).
        """
        available, tau = batch.avail_actions, self.temperature
        logits = q.masked_fill(~available, -torch.inf) / tau
        log_policy = tau * pick(logits[:-1].log_softmax(-1), batch.action)
        gap = tau * (logits[1:].logsumexp(-1) - logits[1:].amax(-1))
        gap = torch.where(available[1:].any(-1), gap, 0)
        return log_policy.clamp(self.floor, 0), gap


def acted_error(
    returns: Returns,
    epsilon: float | None,
    value: Tensor,
    reward: Tensor,
    terminated: Tensor,
    last: Tensor,
) -> Tensor:
    """Absolute TD errors [T, B, N] of independent agents, as computed by Ape-X's actors (Horgan et
    al. 2018, algorithm 1).

    Args:
        returns: n-step returns.
        epsilon: argument of ``rescale``, if values are learned as h(x).
        value: [T+1, B, N, 2], of the action taken and of the best available action.
        reward: [T, B, R], R = 1 or N.
        terminated: [T, B] bool.
        last: [T+1, B] bool.
    """
    taken, best = value.unbind(-1)
    if epsilon is not None:
        best = unscale(best, epsilon)
    td_target = n_step_target(reward, terminated, last, best[1:], returns.gamma, returns.n_step)
    if epsilon is not None:
        td_target = rescale(td_target, epsilon)
    return (taken[:-1] - td_target).abs()
