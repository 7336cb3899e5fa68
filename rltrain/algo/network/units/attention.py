"""``AttentionAgents``: agents that attend to the units they see."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.network.units.entities import EntityAgents
from rltrain.common.number_types import Count, Flag
from rltrain.types import EnvSpec


class AttentionAgents(EntityAgents):
    """One layer of attention over units (after UPDeT, Hu et al. 2021, and TransfQMix, Gallici et
    al. 2023), with a GRU cell as memory instead of a token, and one query: the agent itself.

    Every unit is embedded by a layer of its kind. Each head compares them with a query made of own
    features, softmax_j(query · e_j), and adds the mean of the e_j through a linear layer; one unit
    of logit 0 stands for "none of them". Units that are not seen are masked.

    Args:
        embed_dim: size of an embedded unit, and hidden units of the network of w and c.
        heads: queries.

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
        self.heads, self.scale = heads, embed_dim**-0.5
        self.embed = nn.ModuleDict({n: nn.Linear(k, embed_dim) for n, k in self.sizes.items()})
        self.query = nn.Linear(hidden_dim, heads * embed_dim)
        self.out = nn.Linear(heads * embed_dim, hidden_dim)

    def _join(self, x: Tensor, units: Mapping[str, Tensor]) -> Tensor:
        embedded = [F.relu(self.embed[name](rows)) for name, rows in units.items()]
        unit = torch.cat(embedded, -2)  # [X, N, m, D]
        absent = torch.cat([(rows == 0).all(-1) for rows in units.values()], -1)  # [X, N, m]
        query = (
            self.query(F.relu(x)).unflatten(-1, (self.heads, -1)) * self.scale
        )  # [X, N, heads, D]
        logits = (query @ unit.transpose(-1, -2)).masked_fill(absent.unsqueeze(-2), -torch.inf)
        none = logits.new_zeros(*logits.shape[:-1], 1)
        weight = torch.cat([logits, none], -1).softmax(-1)[..., :-1]  # [X, N, heads, m]
        joined: Tensor = self.out((weight @ unit).flatten(-2))
        return x + joined
