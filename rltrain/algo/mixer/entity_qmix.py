"""``EntityQMix``: QMIX for teams of any size."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.mixer.qmix import need_team_state, two_layers
from rltrain.algo.network.unit_agents import rows
from rltrain.common.number_types import Count
from rltrain.interfaces import Mixer
from rltrain.types import EnvSpec


class EntityQMix(Mixer):
    """QMIX (Rashid et al. 2018) with weights computed from the unit rows of the state: M = 1.

    Q_tot = elu(Σ_i q_i |W_1(u_i, s)| + b_1(s)) · |w_final(s)| + V(s), where u_i embeds the row of
    agent i and s embeds the sums of all embedded allies and of all embedded enemies. A unit is
    present while the first number of its row, its health, is above 0: dead and absent units add
    nothing, so teams may be smaller than the largest one.

    Args:
        embed_dim: units of the mixing network.
        hypernet_dim: size of embeddings.

    Raises:
        ValueError: more than one reward stream, or no unit rows in the state.
    """

    n_streams, uses_greedy, any_size = 1, False, True

    def __init__(self, *, spec: EnvSpec, embed_dim: Count, hypernet_dim: Count) -> None:
        super().__init__()
        need_team_state("EntityQMix", spec)
        blocks = (spec.layout or {}).get("state", {})
        if not {"allies", "enemies"} <= set(blocks):
            raise ValueError(
                "EntityQMix (algo.mixer) needs a state with the blocks allies and enemies, which "
                "this environment does not name. Type env=smac, or algo/mixer=qmix."
            )
        self.blocks = [dict(blocks[name]) for name in ("allies", "enemies")]
        self.embed = nn.ModuleList(nn.Linear(b["size"], hypernet_dim) for b in self.blocks)
        self.context = nn.Linear(2 * hypernet_dim, hypernet_dim)
        self.unit_w_1 = nn.Linear(hypernet_dim, embed_dim)
        self.hyper_w_1 = nn.Linear(hypernet_dim, embed_dim)
        self.hyper_w_final = nn.Linear(hypernet_dim, embed_dim)
        self.hyper_b_1 = nn.Linear(hypernet_dim, embed_dim)
        self.V = two_layers(hypernet_dim, embed_dim, 1)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N], state [T, B, S] to [T, B, 1]."""
        embedded, present = [], []
        for block, embed in zip(self.blocks, self.embed, strict=True):
            units = rows(block, state)
            present.append(units[..., :1] > 0)
            embedded.append(F.relu(embed(units)) * present[-1])  # [T, B, m, D]
        agents, there = embedded[0], present[0]
        s = F.relu(self.context(torch.cat([unit.sum(-2) for unit in embedded], -1)))  # [T, B, D]
        w_1 = (self.unit_w_1(agents) + self.hyper_w_1(s).unsqueeze(-2)).abs() * there
        hidden = F.elu((q.unsqueeze(-1) * w_1).sum(-2) + self.hyper_b_1(s))
        mixed = (hidden * self.hyper_w_final(s).abs()).sum(-1, keepdim=True)
        return mixed + self.V(s)
