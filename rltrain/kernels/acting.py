"""Acting in compiled code: values of plain networks without tensors, and epsilon-greedy choices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rltrain.algo import normalization
from rltrain.algo.exploration.epsilon import EpsilonGreedy
from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.policy import Policy
from rltrain.interfaces import Agents
from rltrain.kernels.layers.stack import Stack
from rltrain.kernels.module_watch import ModuleWatch
from rltrain.kernels.recurrent.weights import agent_weights, recurrent_only
from rltrain.types import Clock


def compiled_step(agents: FeedForward | GRUAgents) -> Callable[..., object] | None:
    """The counterpart of ``step`` of agents that are nothing but layers, or layers and a cell."""
    compiled = RecurrentStep(agents) if recurrent_only(agents) else Stack.of(agents)
    return None if compiled is None else partial(agents_step, compiled)


def agents_step(
    compiled: Stack | RecurrentStep,
    agents: FeedForward | GRUAgents,
    obs: Tensor,
    last_action: Tensor,
    hidden: Tensor,
) -> tuple[Tensor, Tensor]:
    """``FeedForward.step`` and ``GRUAgents.step`` without gradients."""
    if torch.is_grad_enabled() or not (obs.is_cpu and compiled.compiles):
        return cast(Any, type(agents)).step(agents, obs, last_action, hidden)
    if type(compiled) is Stack and not agents.input.bare:
        obs = agents.input(obs, last_action, None)  # [E, N, …]
    q, after = compiled(obs.flatten(2).numpy(), last_action.numpy(), hidden.numpy())
    return torch.from_numpy(q), torch.from_numpy(after)


def values_of_layers(policy: Policy) -> Callable[..., object] | None:
    """The counterpart of ``Policy.values`` of agents that are nothing but layers."""
    stack = Stack.of(policy.agents)
    if stack is None or not obs_alone(cast(FeedForward, policy.agents).input):
        return None
    return partial(compiled_values, stack)


def values_of_cells(policy: Policy) -> Callable[..., object] | None:
    """The counterpart of ``Policy.values`` of agents that are nothing but layers and a cell."""
    agents = policy.agents
    return partial(compiled_values, RecurrentStep(agents)) if recurrent_only(agents) else None


def compiled_values(
    compiled: Stack | RecurrentStep,
    policy: Policy,
    agents: Agents,
    obs: np.ndarray,
    hidden: Tensor,
) -> tuple[np.ndarray, Tensor]:
    """``Policy.values`` of agents that get only observations, as they are or normalized."""
    plain = agents is policy.agents and compiled.compiles
    if not plain or not (type(compiled) is RecurrentStep or obs_alone(agents.input)):
        return Policy.values(policy, agents, obs, hidden)
    if agents.training != policy.noisy:
        agents.train(policy.noisy)
    rows = obs.reshape(*obs.shape[:2], -1).astype(np.float32, copy=False)
    if (statistics := shift_and_scale(agents)) is not None:
        rows = normalized(rows, *statistics)
    q, after = compiled(rows, policy.last_action, hidden.numpy())
    return q, torch.from_numpy(after)


def obs_alone(entry: Any) -> bool:
    """Whether the input of agents is only observations, as they are or normalized."""
    kept = type(entry) is AgentInput and entry.norm is not None and entry.rest.dim == 0
    return entry.bare or kept


def shift_and_scale(agents: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Shift and scale [D] of observations; None if they are not normalized."""
    norm = agents.input.norm if type(agents.input) is AgentInput else None
    return None if norm is None else (norm.shift.numpy(), norm.scale.numpy())


def normalized(
    rows: np.ndarray, shift: np.ndarray, scale: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """``RunningNorm.forward`` on observations [..., D]."""
    out = np.subtract(rows, shift, out=out)
    out *= scale
    clip = normalization.CLIP
    return np.minimum(np.maximum(out, -clip, out=out), clip, out=out)


def choose(
    exploration: EpsilonGreedy,
    q: np.ndarray,
    available: np.ndarray,
    clock: Clock,
    rng: np.random.Generator,
) -> np.ndarray:
    """``EpsilonGreedy.choose``."""
    from rltrain.kernels import acting_kernel

    action = np.empty(q.shape[:2], np.int64)
    epsilon = np.full(len(q), exploration.epsilon(clock))
    given = map(np.ascontiguousarray, (q, available))
    acting_kernel.choose(*given, epsilon, rng.random((2, *action.shape)), action)
    return action


class RecurrentStep:
    """One step of recurrent agents. Their weights are found once, because that takes as long as the
    step.
    """

    def __init__(self, agents: GRUAgents) -> None:
        self.weights, rest = agent_weights(agents), agents.input.rest
        self.last_action, self.agent_id = rest.last_action, rest.agent_id
        self.input, self.n_inputs = agents.input, agents.input.dim
        self.hidden_dim, self.n_actions = agents.hidden_dim, len(self.weights[-1])
        self._places: list[int] = []
        self._arrays: tuple[np.ndarray, ...] = ()
        self.watch = ModuleWatch(agents)

    @property
    def compiles(self) -> bool:
        """Whether the weights lie where compiled code can take them, and are nothing but that."""
        weight = self.weights[0]
        return weight.is_cpu and weight.dtype == torch.float32 and self.watch.plain()

    def __call__(
        self, rows: np.ndarray, last_action: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Observations [E, N, O], previous actions [E, N] and states [E, N, H] to values [E, N, A]
        and the next states.

        Raises:
            ValueError: sizes that do not fit.
            IndexError: a previous action out of range.
        """
        from rltrain.kernels import acting_kernel

        n_envs, n_agents, n_obs = rows.shape
        n_last, n_ids = self.last_action * self.n_actions, self.agent_id * n_agents
        if n_obs + n_last + n_ids != self.n_inputs or hidden.shape[2] != self.hidden_dim:
            raise ValueError(
                f"expected {self.n_inputs - n_last - n_ids} inputs and {self.hidden_dim} units, "
                f"got {n_obs} and {hidden.shape[2]}."
            )
        q = np.empty((n_envs, n_agents, self.n_actions), np.float32)
        after = np.empty(hidden.shape, np.float32)
        places = [weight.data_ptr() for weight in self.weights]
        if places != self._places:
            self._places = places
            self._arrays = tuple(weight.detach().numpy() for weight in self.weights)
        scale = np.float32(self.input.scale)
        inputs = map(np.ascontiguousarray, (rows, last_action, hidden))
        if not acting_kernel.step(*inputs, self._arrays, n_last, n_ids, scale, q, after):
            raise IndexError("a previous action is out of range")
        return q, after
