"""QPLEX: a mixer for all joint values consistent with the agents' greedy actions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.mixer.qatten import StateAttention
from rltrain.algo.mixer.qmix import need_team_state, two_layers
from rltrain.algo.network.head import linear_layers
from rltrain.common.number_types import Count, Flag, NonNegative
from rltrain.interfaces import Mixer
from rltrain.types import EnvSpec

SMALLEST = 1e-10
"""Added to weights that must be positive."""


class QPlex(Mixer):
    """Duplex dueling mixer (Wang et al. 2021, equations 8 to 12): M = 1.

    Q_tot = Σ_i Q̃_i + Σ_i (λ_i(s, u) − 1) Ã_i with Q̃_i = w_i(s) Q_i + b_i(s), the advantages
    Ã_i = w_i(s) (Q_i(u_i) − max Q_i) ≤ 0, through which no gradient flows, and λ_i > 0: the joint
    greedy action consists of the agents' greedy actions.

    Args:
        hypernet_dim: hidden units of the networks for w and b.
        kernels: K, heads of the importance weights λ.
        kernel_layers, kernel_dim: depth of their networks, and width with two or more layers.

    Raises:
        ValueError: more than one reward stream, or no global state.
    """

    n_streams = 1

    def __init__(
        self,
        *,
        spec: EnvSpec,
        hypernet_dim: Count,
        kernels: Count,
        kernel_layers: Literal[1, 2, 3],
        kernel_dim: Count,
    ) -> None:
        super().__init__()
        need_team_state("QPlex", spec)
        self.hyper_w_final = two_layers(spec.state_dim, hypernet_dim, spec.n_agents)
        self.V = two_layers(spec.state_dim, hypernet_dim, spec.n_agents)
        self.si_weight = ImportanceWeights(spec, kernels, kernel_layers, kernel_dim)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q, greedy_q and action [T, B, N], state [T, B, S] to [T, B, 1]."""
        weight = self.hyper_w_final(state).abs() + SMALLEST  # [T, B, N]
        return duplex(q, greedy_q, weight, self.V(state), self.si_weight(action, state))


class QPlexAttention(Mixer):
    """QPLEX with attention weights w over the agents' features in the state (Wang et al. 2021,
    appendix B; the authors' ``dmaq_qatten``): M = 1.

    Args:
        heads, embed_dim, hypernet_dim, weighted_heads: as in ``StateAttention``.
        attention_penalty: weight of the squared attention logits in the loss.
        kernels, kernel_layers, kernel_dim: as in ``QPlex``.

    Raises:
        ValueError: more than one reward stream, or no global state.
    """

    n_streams = 1

    def __init__(
        self,
        *,
        spec: EnvSpec,
        heads: Count,
        embed_dim: Count,
        hypernet_dim: Count,
        weighted_heads: Flag,
        attention_penalty: NonNegative,
        kernels: Count,
        kernel_layers: Literal[1, 2, 3],
        kernel_dim: Count,
    ) -> None:
        super().__init__()
        need_team_state("QPlexAttention", spec)
        self.attention_penalty = attention_penalty
        self.attention_weight = StateAttention(
            spec, heads, embed_dim, hypernet_dim, weighted_heads=weighted_heads
        )
        self.si_weight = ImportanceWeights(spec, kernels, kernel_layers, kernel_dim)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q, greedy_q and action [T, B, N], state [T, B, S] to [T, B, 1]."""
        attention = self.attention_weight
        weight = attention(state) + SMALLEST  # [T, B, N]
        bias = (attention.V(state) / q.shape[-1]).expand_as(weight)
        return duplex(q, greedy_q, weight, bias, self.si_weight(action, state))

    def penalty(self, state: Tensor) -> Tensor:
        """``attention_penalty`` × mean squared logit, summed over heads: [T, B, S] to [T, B]."""
        logits = self.attention_weight.logits(state)  # [T, B, heads, N]
        return self.attention_penalty * logits.square().mean(-1).sum(-1)


def duplex(q: Tensor, greedy_q: Tensor, weight: Tensor, bias: Tensor, importance: Tensor) -> Tensor:
    """Q_tot [T, B, 1] from values, greedy values, w, b and λ, all [T, B, N]."""
    value = weight * q + bias
    advantage = (value - (weight * greedy_q + bias)).detach()
    return (value + (importance - 1) * advantage).sum(-1, keepdim=True)


class ImportanceWeights(nn.Module):
    """λ_i(s, u) = Σ_k |key_k(s)| σ(agents_k(s)_i) σ(action_k(s, u)_i) > 0."""

    def __init__(self, spec: EnvSpec, kernels: int, n_layers: int, width: int) -> None:
        super().__init__()
        self.n_actions = spec.n_actions

        def networks(n_in: int, n_out: int) -> nn.ModuleList:
            return nn.ModuleList(
                linear_layers(n_in, width, n_out, n_layers) for _ in range(kernels)
            )

        joint_action = spec.n_agents * spec.n_actions
        self.key_extractors = networks(spec.state_dim, 1)
        self.agents_extractors = networks(spec.state_dim, spec.n_agents)
        self.action_extractors = networks(spec.state_dim + joint_action, spec.n_agents)

    def forward(self, action: Tensor, state: Tensor) -> Tensor:
        """action [T, B, N], state [T, B, S] to [T, B, N]."""
        one_hot = F.one_hot(action, self.n_actions).flatten(-2).to(state.dtype)
        both = torch.cat([state, one_hot], -1)

        def stacked(networks: nn.ModuleList, x: Tensor) -> Tensor:
            return torch.stack([network(x) for network in networks])  # [K, T, B, ·]

        key = stacked(self.key_extractors, state).abs() + SMALLEST
        agents = stacked(self.agents_extractors, state).sigmoid()
        return (key * agents * stacked(self.action_extractors, both).sigmoid()).sum(0)
