"""``AttentionAgents``: agents that attend to the units they see."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.network.units.entities import UNITS, Block, EntityAgents, rows
from rltrain.common.number_types import Count, Flag
from rltrain.types import EnvSpec


class AttentionAgents(EntityAgents):
    """One layer of attention over units (after UPDeT, Hu et al. 2021, and TransfQMix, Gallici et
    al. 2023), with a GRU cell as memory instead of a token, and the agent itself as the only query.

    Each kind of unit has an embedding layer. Each head attends with a query computed from own
    features, softmax_j(query · e_j), and adds the weighted mean of the e_j through a linear layer;
    an extra unit with logit 0 stands for "none of them". Unseen units are masked.

    Args:
        embed_dim: size of an embedded unit, and hidden units of the network for w and c.
        heads: number of queries.

    Raises:
        ValueError: as ``EntityAgents``.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        hidden_dim: Count,
        embed_dim: Count,
        heads: Count,
        last_action: Flag,
        agent_id: Flag,
    ) -> None:
        super().__init__(
            spec=spec,
            hidden_dim=hidden_dim,
            hyper_dim=embed_dim,
            last_action=last_action,
            agent_id=agent_id,
        )
        self.attention = UnitAttention(
            {name: self.blocks[name] for name in UNITS}, hidden_dim, embed_dim, heads
        )

    def _join(self, x: Tensor, obs: Tensor) -> Tensor:
        joined: Tensor = self.attention(x, obs)
        return x + joined


# twin: kernels/recurrent/unit_attention.py
class UnitAttention(nn.Module):
    """The sum of attended units: own features x [..., H] and observations [..., O] to [..., H].

    Args:
        blocks: positions of units in an observation, by kind.
        n_hidden: H.
        embed_dim: D, size of an embedded unit.
        heads: number of queries.
    """

    def __init__(
        self, blocks: Mapping[str, Block], n_hidden: int, embed_dim: int, heads: int
    ) -> None:
        super().__init__()
        self.blocks, self.heads, self.scale = blocks, heads, embed_dim**-0.5
        self.embed = nn.ModuleDict(
            {name: nn.Linear(block["size"], embed_dim) for name, block in blocks.items()}
        )
        self.query = nn.Linear(n_hidden, heads * embed_dim)
        self.out = nn.Linear(heads * embed_dim, n_hidden)

    def forward(self, x: Tensor, obs: Tensor) -> Tensor:
        """Absent units, whose rows are zeros, are ignored."""
        units = [rows(block, obs) for block in self.blocks.values()]
        embedded = zip(self.embed.values(), units, strict=True)
        unit = torch.cat([F.relu(embed(each)) for embed, each in embedded], -2)  # [..., m, D]
        absent = torch.cat([(each == 0).all(-1) for each in units], -1)  # [..., m]
        query = self.query(F.relu(x)).unflatten(-1, (self.heads, -1)) * self.scale
        logits = (query @ unit.transpose(-1, -2)).masked_fill(absent.unsqueeze(-2), -torch.inf)
        none = logits.new_zeros(*logits.shape[:-1], 1)
        weight = torch.cat([logits, none], -1).softmax(-1)[..., :-1]  # [..., heads, m]
        attended: Tensor = self.out((weight @ unit).flatten(-2))
        return attended
