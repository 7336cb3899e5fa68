"""Acting in compiled code: values of plain networks without tensors, and epsilon-greedy choices."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
from torch import Tensor, nn

from rltrain.algo.exploration.epsilon import (
    EpsilonGreedy,
    ExponentialEpsilon,
    FixedEpsilon,
    PiecewiseEpsilon,
)
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.policy import Policy
from rltrain.kernels.feed_forward import Stack, outputs_of
from rltrain.kernels.recurrent.acting import RecurrentStep, recurrent_values
from rltrain.kernels.recurrent.learning import plain_agents
from rltrain.kernels.replace import replace_method
from rltrain.kernels.twins import doubled
from rltrain.kernels.twins.table import FORWARD
from rltrain.types import Clock


def compile_policy(policy: Policy, required: bool = False) -> None:
    """Let a policy act in compiled code, where network and exploration have counterparts."""
    stack, kinds = Stack.of(policy.agents), (FORWARD, "recurrent/acting.py", "acting.py")
    recurrent = stack is None and plain_agents(policy.agents)
    bare = stack is not None and cast(FeedForward, policy.agents).input.bare
    parts = [policy, *policy.agents.modules()]
    if (bare or recurrent) and doubled(kinds, parts, required):
        if stack is not None:
            replace_method(policy, "values", partial(_values, stack))
        else:
            step = RecurrentStep(cast(GRUAgents, policy.agents))
            replace_method(policy, "values", partial(recurrent_values, step))
    explorations = EpsilonGreedy, ExponentialEpsilon, FixedEpsilon, PiecewiseEpsilon
    exploration = policy.exploration
    # a subclass may compute something else
    if type(exploration) in explorations and doubled(("acting.py",), [exploration], required):
        replace_method(exploration, "choose", choose)


def _values(
    stack: Stack, policy: Policy, agents: nn.Module, obs: np.ndarray, hidden: Tensor
) -> tuple[np.ndarray, Tensor]:
    """``Policy.values`` of agents that get observations as they are."""
    if agents is not policy.agents or not stack.compiles:
        return Policy.values(policy, agents, obs, hidden)
    if agents.training != policy.noisy:
        agents.train(policy.noisy)
    rows = obs.reshape(obs.shape[0] * obs.shape[1], -1).astype(np.float32, copy=False)
    kind, points = outputs_of(cast(FeedForward, agents).distribution)
    return stack.expected(rows, kind, points).reshape(*obs.shape[:2], -1), hidden


def choose(
    exploration: EpsilonGreedy,
    q: np.ndarray,
    available: np.ndarray,
    clock: Clock,
    rng: np.random.Generator,
) -> np.ndarray:
    """``EpsilonGreedy.choose``."""
    from rltrain.kernels import choice_kernel

    action = np.empty(q.shape[:2], np.int64)
    epsilon = np.full(len(q), exploration.epsilon(clock))
    choice_kernel.choose(q, available, epsilon, rng.random((2, *action.shape)), action)
    return action
