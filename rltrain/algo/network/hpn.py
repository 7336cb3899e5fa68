"""``HPNAgents``: agents whose values do not depend on the order of the units they see."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from rltrain.algo.network.entities import EntityAgents, hypernet
from rltrain.common.number_types import Count, Flag
from rltrain.types import EnvSpec


class HPNAgents(EntityAgents):
    """Hyper policy network (Hao et al. 2023) with one head: the features of every unit choose the
    weights that they are multiplied with.

    To the output of the layer of own features every enemy x_j adds x_j W(x_j), every ally the same
    with a network of its own: their order does not matter.

    Args:
        hyper_dim: hidden units of the networks of W, w and c.

    Raises:
        ValueError: as ``EntityAgents``.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        hidden_dim: Count,
        hyper_dim: Count,
        last_action: Flag,
        agent_id: Flag,
    ) -> None:
        super().__init__(
            spec=spec,
            hidden_dim=hidden_dim,
            hyper_dim=hyper_dim,
            last_action=last_action,
            agent_id=agent_id,
        )
        self.hyper_in = nn.ModuleDict(
            {n: hypernet(size, hyper_dim, size * hidden_dim) for n, size in self.sizes.items()}
        )

    def _join(self, x: Tensor, units: Mapping[str, Tensor]) -> Tensor:
        for name, rows in units.items():
            weight = self.hyper_in[name](rows).unflatten(-1, (rows.shape[-1], -1))
            x = x + (rows.unsqueeze(-1) * weight).sum((-3, -2))
        return x
