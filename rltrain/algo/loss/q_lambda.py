"""Q(λ): learning from the steps just collected, without a target network."""

from __future__ import annotations

import torch
from torch import Tensor

from rltrain.algo.loss.td import taken_value, td_result
from rltrain.algo.network.packing import zero_outside
from rltrain.algo.targets import greedy, lambda_return, pick
from rltrain.common.number_types import Probability
from rltrain.interfaces import Loss, Model
from rltrain.types import Batch, Clock, LossResult


class LambdaLoss(Loss):
    """Squared error to Q(λ) returns of the online network; no target network (PQN; Gallici et al.
    2025, algorithm 1).

    Args:
        gamma: discount per step.
        trace: λ; 0 = one-step, 1 = to the end of the collected steps.
    """

    n_step = 1

    def __init__(self, *, gamma: Probability, trace: Probability) -> None:
        self.gamma, self.trace = gamma, trace

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (learned transitions × M), priority [B]; ``batch.td_target`` is set."""
        assert batch.td_target is not None, "Q(λ) needs buffer=on_policy"
        state = zero_outside(batch.state, batch.real)
        q = online.agents.unroll(batch, stop=len(batch.action)).q[:-1]
        q_taken = taken_value(online, q, batch, state[:-1])
        return td_result(online, q_taken, batch.td_target, batch, state[:-1], None)

    @torch.no_grad()
    def targets(self, online: Model, transitions: Batch, last: Tensor) -> Tensor:
        """[T, E, M] for ``transitions`` (T = 1, B = T · E, in time order) and ``last`` [T+1, E]."""
        online.train()  # a test may have disabled its noise
        q = online.agents.unroll(transitions, start=1).q[1:]
        action = greedy(q, transitions.avail_actions[1:])
        best = pick(q, action)
        value = online.mixer(best, best, action, transitions.state[1:])
        shape = (len(last) - 1, last.shape[1])
        return lambda_return(
            transitions.reward[0].view(*shape, -1),
            transitions.terminated[0].view(shape),
            last,
            value[0].view(*shape, -1),
            self.gamma,
            self.trace,
        )
