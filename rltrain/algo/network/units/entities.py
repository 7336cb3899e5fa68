"""``EntityAgents``: recurrent agents that read an observation as rows of units.

A new one is a subclass that adds the units to the input of the recurrent cell (``_join``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.packing import zero_outside
from rltrain.common.number_types import Count, Flag
from rltrain.types import Batch, EnvSpec, Output

UNITS = ("enemies", "allies")
"""Blocks of observations whose rows are units."""


class EntityAgents(GRUAgents):
    """Own features pass a linear layer, to whose output the units that are seen are added. After
    the GRU cell, actions without a target have a linear layer, and the value of attacking enemy j
    is h · w(x_j) + c(x_j): it moves with the enemy. Healers' actions are read as attacks on the
    enemy of the same number. Rows of zeros, which are units that are not there, change nothing.

    Args:
        hyper_dim: hidden units of the network of w and c.

    Raises:
        ValueError: the environment names no blocks of units, or has no attack for each enemy.
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
            spec=spec, hidden_dim=hidden_dim, last_action=last_action, agent_id=agent_id
        )
        blocks, kind = (spec.layout or {}).get("obs", {}), type(self).__name__
        if not {*UNITS} <= set(blocks) or spec.frame_stack > 1:
            raise ValueError(
                f"{kind} (algo.network) needs observations with the blocks enemies and allies, "
                "which this environment does not name. Type env=smac, or algo/network=gru."
            )
        self.blocks = {name: dict(block) for name, block in blocks.items()}
        self.n_plain = spec.n_actions - self.blocks["enemies"]["count"]
        if self.n_plain < 1:
            raise ValueError(
                f"{kind} (algo.network): {spec.n_actions} actions cannot have an attack for "
                f"each of {self.blocks['enemies']['count']} enemies. Type algo/network=gru."
            )
        self.any_size = not (last_action or agent_id)  # which are one-hot
        own = sum(b["count"] * b["size"] for n, b in self.blocks.items() if n not in UNITS)
        self.input = AgentInput(
            spec=replace(spec, obs_shape=(own,)), last_action=last_action, agent_id=agent_id
        )
        self.fc1 = nn.Linear(self.input.dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, self.n_plain)
        self.sizes = {name: self.blocks[name]["size"] for name in UNITS}
        self.hyper_attack = hypernet(self.sizes["enemies"], hyper_dim, hidden_dim + 1)

    @abstractmethod
    def _join(self, x: Tensor, units: Mapping[str, Tensor]) -> Tensor:
        """Own features x [X, N, H] and the rows of units [X, N, m, k] to [X, N, H]."""

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of whole windows; see ``GRUAgents``."""
        plain, real = super().unroll(batch, start, stop), batch.real
        if real is None or not real.is_cpu:
            obs = zero_outside(batch.obs, real)  # 0 times NaN would reach a gradient
            attacks = zero_outside(self._attacks(obs, plain.hidden), real)
        else:
            found = self._attacks(batch.obs[real], plain.hidden[real])
            attacks = found.new_zeros(*real.shape, *found.shape[1:]).index_put((real,), found)
        return Output(torch.cat([plain.q, attacks], -1), plain.hidden)

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, O], last_action [E, N], hidden [E, N, H] to (q, next hidden)."""
        q, after = super().step(obs, last_action, hidden)
        return torch.cat([q, self._attacks(obs, after)], -1), after

    def _attacks(self, obs: Tensor, hidden: Tensor) -> Tensor:
        """Values [..., m] of attacking each enemy: obs [..., O], hidden [..., H]. The last layer of
        ``hyper_attack`` meets h before x_j, which is the same and cheaper.
        """
        last = self.hyper_attack[-1]
        assert isinstance(last, nn.Linear)
        unit = self.hyper_attack[:-1](self._units("enemies", obs))  # [..., m, D]
        hidden = F.pad(hidden, (0, 1), value=1.0)  # [..., H + 1], the 1 for c
        query, constant = hidden @ last.weight, hidden @ last.bias  # [..., D], [...]
        return (unit * query.unsqueeze(-2)).sum(-1) + constant.unsqueeze(-1)

    def _embed(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """Input of the recurrent cell [X, N, H]."""
        own = [
            obs.narrow(-1, block["start"], block["count"] * block["size"])
            for name, block in self.blocks.items()
            if name not in UNITS
        ]
        x = self.fc1(self.input(torch.cat(own, -1), last_action, agent))
        return F.relu_(self._join(x, {name: self._units(name, obs) for name in UNITS}))

    def _units(self, name: str, obs: Tensor) -> Tensor:
        """The rows of a block: [..., O] to [..., m, k]."""
        block = self.blocks[name]
        rows = obs.narrow(-1, block["start"], block["count"] * block["size"])
        return rows.unflatten(-1, (block["count"], block["size"]))


def hypernet(n_in: int, width: int, n_out: int) -> nn.Sequential:
    """Linear, ReLU, Linear."""
    return nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, n_out))
