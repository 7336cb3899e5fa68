"""Batches of battles in the layout of a larger map."""

from dataclasses import replace

import torch

from rltrain.battles.data.maps import find_map
from rltrain.battles.options import Options, columns, largest
from rltrain.env.smac.backend import make_spec
from rltrain.types import Batch, EnvSpec


def spec_among(*names: str) -> EnvSpec:
    """The spec of ``env.maps=[…]``."""
    return make_spec(largest([replace(find_map(name), for_any=True) for name in names]), Options())


def laid_out(batch: Batch, small: EnvSpec, large: EnvSpec) -> Batch:
    """A batch of the one spec as the larger one shows it."""
    n, of_actions = small.n_agents, slice(small.n_actions)

    def wide(x: torch.Tensor, sizes: tuple[int, ...], *where) -> torch.Tensor:
        padded = x.new_zeros(*x.shape[:2], *sizes)
        padded[(slice(None), slice(None), *where)] = x
        return padded

    places = {kind: columns(small.layout, large.layout, kind) for kind in ("obs", "state")}
    agents, N = torch.arange(n), large.n_agents
    available = wide(batch.avail_actions, (N, large.n_actions), slice(n), of_actions)
    available[:, :, n:, 0] = True
    last_action = wide(batch.last_action + 1, (N,), slice(n)) - 1
    return replace(
        batch,
        obs=wide(batch.obs, (N, *large.obs_shape), agents[:, None], torch.tensor(places["obs"])),
        state=wide(batch.state, (large.state_dim,), torch.tensor(places["state"])),
        avail_actions=available,
        last_action=last_action,
        action=wide(batch.action, (N,), slice(n)),
    )
