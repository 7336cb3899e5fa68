"""``EntityAgents``: recurrent agents that read an observation as rows of units, allies and enemies;
``HPNAgents``, ``AttentionAgents``.

To add one: a subclass that adds the units to the input of the recurrent cell (``_join``).
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
from rltrain.types import Batch, EnvSpec, Output, inside

UNITS = ("enemies", "allies")
"""Blocks of observations whose rows are units."""
Block = Mapping[str, int]
"""The ``start`` of the first row in an observation, ``count`` rows of ``size`` numbers."""


class EntityAgents(GRUAgents):
    """Recurrent agents over units. Visible units are added to a linear layer of own features. After
    the GRU cell, a linear layer values actions without a target, and attacking enemy j has the
    value h · w(x_j) + c(x_j), independent of the enemies' order. Healers' actions count as attacks
    on the enemy of the same number, or, beyond the last enemy, as actions without a target. Absent
    units, rows of zeros, change nothing.

    Args:
        hyper_dim: hidden units of the network for w and c.

    Raises:
        ValueError: the environment names no unit blocks, or has no attack for each enemy.
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
        layout, kind = spec.layout or {}, type(self).__name__
        blocks = layout.get("obs", {})
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
        first = layout.get("actions", {}).get("targets", {}).get("start", self.n_plain)
        self.plain_parts = [n for n in (first, self.n_plain - first) if n]
        self.any_size = not (last_action or agent_id)  # which are one-hot
        own = sum(b["count"] * b["size"] for n, b in self.blocks.items() if n not in UNITS)
        self.input = AgentInput(
            spec=replace(spec, obs_shape=(own,)), last_action=last_action, agent_id=agent_id
        )
        self.fc1 = nn.Linear(self.input.dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, self.n_plain)
        self.attack = AttackValues(self.blocks["enemies"], hidden_dim, hyper_dim)
        self._add_layers(hidden_dim, hyper_dim)

    def _add_layers(self, hidden_dim: int, hyper_dim: int) -> None:
        """Add the layers of a subclass."""

    @abstractmethod
    def _join(self, x: Tensor, obs: Tensor) -> Tensor:
        """Own features x [X, N, H] and observations [X, N, O] to [X, N, H]."""

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """See ``GRUAgents``. Agents that see nothing in a whole window, such as absent agents, have
        equal values, which are computed once; not on a GPU, since finding them waits for it.
        """
        whole = batch.hidden is None and batch.warm_up is None
        if not (self.any_size and whole and batch.obs.is_cpu):
            return super().unroll(batch, start, stop)
        obs, last_action = batch.obs.flatten(1, 2), batch.last_action.flatten(1, 2)  # [T+1, B·N, …]
        blind = (obs[0] == 0).all(-1)
        candidates = blind.nonzero().squeeze(1)
        blind[candidates] = (obs.index_select(1, candidates) == 0).all(-1).all(0)
        if blind.sum() < 2:
            return super().unroll(batch, start, stop)
        last = batch.last.repeat_interleave(batch.obs.shape[2], 1)
        real = inside(last)
        longest = (real.sum(0) * blind).argmax()
        chosen = torch.cat([(~blind).nonzero().squeeze(1), longest.view(1)])
        place = torch.where(blind, len(chosen) - 1, (~blind).cumsum(0) - 1)  # [B·N]
        output = super().unroll(
            replace(
                batch,
                obs=obs.index_select(1, chosen).unsqueeze(2),
                last_action=last_action.index_select(1, chosen).unsqueeze(2),
                last=last.index_select(1, chosen),
                burn_in=0,
                agent=None,
            )
        )
        q, hidden = (
            zero_outside(x.index_select(1, place), real).view(*batch.obs.shape[:3], -1)
            for x in (output.q, output.hidden)
        )
        return Output(q, hidden)

    def _values(
        self, hidden: Tensor, obs: Tensor, learning: bool | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """See ``GRUAgents``; attacks are the first actions with a target, or the last actions if
        the environment does not name these."""
        before, *after = self.fc2(hidden).split(self.plain_parts, -1)
        return torch.cat([before, self.attack(hidden, obs), *after], -1), None, None

    def _embed(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """Input of the recurrent cell [X, N, H]."""
        own = [
            obs.narrow(-1, block["start"], block["count"] * block["size"])
            for name, block in self.blocks.items()
            if name not in UNITS
        ]
        x = self.fc1(self.input(torch.cat(own, -1), last_action, agent))
        return F.relu_(self._join(x, obs))


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


# twin: kernels/recurrent/unit_attention.py
class AttackValues(nn.Module):
    """The values of attacking each enemy, h · w(x_j) + c(x_j): h [..., H] and observations [..., O]
    to [..., m].

    Args:
        block: position of the enemies in an observation.
        n_hidden: H.
        width: hidden units of the network for w and c.
    """

    def __init__(self, block: Block, n_hidden: int, width: int) -> None:
        super().__init__()
        self.block = block
        self.embed = nn.Linear(block["size"], width)
        self.last = nn.Linear(width, n_hidden + 1)

    def forward(self, hidden: Tensor, obs: Tensor) -> Tensor:
        """Multiply the last layer by h before x_j: the same result, cheaper."""
        query, constant = self.queries(hidden)
        unit = F.relu(self.embed(rows(self.block, obs)))  # [..., m, D]
        return (unit * query.unsqueeze(-2)).sum(-1) + constant.unsqueeze(-1)

    def queries(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The factor [..., D] of embedded enemies, and the constant [...] to add."""
        hidden = F.pad(hidden, (0, 1), value=1.0)  # [..., H + 1], the 1 for c
        return hidden @ self.last.weight, hidden @ self.last.bias


# twin: kernels/recurrent/unit_attention.py
def rows(block: Block, obs: Tensor) -> Tensor:
    """The rows of a block of observations or states: [..., O] to [..., m, k]."""
    units = obs.narrow(-1, block["start"], block["count"] * block["size"])
    return units.unflatten(-1, (block["count"], block["size"]))
