"""Qatten: a mixer with attention weights over the agents' features in the state."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rltrain.algo.mixer.qmix import need_team_state, two_layers
from rltrain.algo.network.unit_agents import rows
from rltrain.common.number_types import Count, Flag
from rltrain.interfaces import Mixer
from rltrain.types import EnvSpec


class Qatten(Mixer):
    """Monotonic multi-head attention mixer (Yang et al. 2020, equations 9 to 12): M = 1.

    Q_tot = Σ_h |w_h(s)| Σ_i softmax_i(query_h(s) · key(unit_i) / √d) Q_i + c(s).

    Args:
        heads: attention heads.
        query_dim: hidden units of the networks for the queries and w.
        embed_dim: d, size of queries and keys.
        constant_dim: hidden units of the network for c.
        weighted_heads: use w.

    Raises:
        ValueError: more than one reward stream, or no global state.
    """

    n_streams, uses_greedy = 1, False

    def __init__(
        self,
        *,
        spec: EnvSpec,
        heads: Count,
        query_dim: Count,
        embed_dim: Count,
        constant_dim: Count,
        weighted_heads: Flag,
    ) -> None:
        super().__init__()
        need_team_state("Qatten", spec)
        self.units = Units(spec)
        self.scale = math.sqrt(embed_dim)
        self.query_embedding_layers = nn.ModuleList(
            two_layers(spec.state_dim, query_dim, embed_dim) for _ in range(heads)
        )
        self.key_embedding_layers = nn.ModuleList(
            nn.Linear(self.units.dim, embed_dim) for _ in range(heads)
        )
        self.head_embedding_layer = (
            two_layers(spec.state_dim, query_dim, heads) if weighted_heads else None
        )
        self.constant_layer = two_layers(spec.state_dim, constant_dim, 1)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N], state [T, B, S] to [T, B, 1]."""
        pairs = zip(self.query_embedding_layers, self.key_embedding_layers, strict=True)
        logits = attention_logits(list(pairs), state, self.units(state), self.scale)
        heads = logits.softmax(-1)  # [T, B, heads, N]
        if self.head_embedding_layer is not None:
            heads = heads * self.head_embedding_layer(state).abs().unsqueeze(-1)
        constant: Tensor = self.constant_layer(state)
        return (heads.sum(-2) * q).sum(-1, keepdim=True) + constant


class StateAttention(nn.Module):
    """Attention of a state over its agents: nonnegative weights, summed over heads."""

    def __init__(
        self, spec: EnvSpec, heads: int, embed_dim: int, hypernet_dim: int, *, weighted_heads: bool
    ) -> None:
        super().__init__()
        self.units, self.scale = Units(spec), math.sqrt(embed_dim)
        self.selector_extractors = nn.ModuleList(
            two_layers(spec.state_dim, hypernet_dim, embed_dim, bias=False) for _ in range(heads)
        )
        self.key_extractors = nn.ModuleList(
            nn.Linear(self.units.dim, embed_dim, bias=False) for _ in range(heads)
        )
        self.hyper_w_head = (
            two_layers(spec.state_dim, hypernet_dim, heads) if weighted_heads else None
        )
        self.V = two_layers(spec.state_dim, embed_dim, 1)

    def logits(self, state: Tensor) -> Tensor:
        """query_h(s) · key_h(unit_i) before scaling: [T, B, S] to [T, B, heads, N]."""
        pairs = zip(self.selector_extractors, self.key_extractors, strict=True)
        return attention_logits(list(pairs), state, self.units(state), 1.0)

    def forward(self, state: Tensor) -> Tensor:
        """[T, B, S] to [T, B, N]."""
        heads = (self.logits(state) / self.scale).softmax(-1)
        if self.hyper_w_head is not None:
            heads = heads * self.hyper_w_head(state).abs().unsqueeze(-1)
        return heads.sum(-2)


class Units(nn.Module):
    """The features of every agent in a state: its row in the block ``allies`` of the environment's
    layout, or, without that block, the whole state and the agent's id.
    """

    agent_rows: Tensor

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        block = (spec.layout or {}).get("state", {}).get("allies")
        self.block = block if block and block["count"] == spec.n_agents else None
        self.dim = self.block["size"] if self.block else spec.state_dim + spec.n_agents
        self.register_buffer("agent_rows", torch.eye(spec.n_agents), persistent=False)

    def forward(self, state: Tensor) -> Tensor:
        """[T, B, S] to [T, B, N, dim]."""
        if self.block is not None:
            return rows(self.block, state)
        states = state.unsqueeze(-2).expand(*state.shape[:-1], len(self.agent_rows), -1)
        return torch.cat([states, self.agent_rows.expand(*states.shape[:-1], -1)], -1)


def attention_logits(
    pairs: list[tuple[nn.Module, nn.Module]], state: Tensor, units: Tensor, scale: float
) -> Tensor:
    """query_h(s) · key_h(unit_i) / scale for each (query, key) network: [T, B, heads, N]."""
    logits = [(key(units) @ query(state).unsqueeze(-1)).squeeze(-1) for query, key in pairs]
    return torch.stack(logits, -2) / scale
