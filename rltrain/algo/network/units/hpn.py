"""``HPNAgents``: agents whose values do not depend on the order of the units they see."""

from __future__ import annotations

from torch import Tensor, nn

from rltrain.algo.network.units.entities import UNITS, EntityAgents, rows


class HPNAgents(EntityAgents):
    """Hyper policy network (Hao et al. 2023) with one head: each unit's features generate the
    weights that they are multiplied by.

    Every enemy x_j adds x_j W(x_j) to the layer of own features, and every ally likewise with
    another network: their order does not matter.

    Args:
        hyper_dim: hidden units of the networks for W, w and c.

    Raises:
        ValueError: as ``EntityAgents``.
    """

    def _add_layers(self, hidden_dim: int, hyper_dim: int) -> None:
        self.hyper_in = nn.ModuleDict(
            {n: hypernet(self.blocks[n]["size"], hyper_dim, hidden_dim) for n in UNITS}
        )

    def _join(self, x: Tensor, obs: Tensor) -> Tensor:
        """Units are summed as products of features and hidden units, before the last layer."""
        for name in UNITS:
            units = rows(self.blocks[name], obs)  # [X, N, m, k]
            made = self.hyper_in[name]
            assert isinstance(made, nn.Sequential)
            last = made[-1]
            assert isinstance(last, nn.Linear)
            products = units.transpose(-1, -2) @ made[:-1](units)  # [X, N, k, D]
            weight = last.weight.unflatten(0, (units.shape[-1], -1)).transpose(1, 2)  # [k, D, H]
            x = x + products.flatten(-2) @ weight.flatten(0, 1)
            x = x + units.sum(-2) @ last.bias.unflatten(0, (units.shape[-1], -1))
        return x


def hypernet(n_in: int, width: int, n_hidden: int) -> nn.Sequential:
    """A network that computes a matrix [n_in, n_hidden] from n_in features."""
    return nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, n_in * n_hidden))
