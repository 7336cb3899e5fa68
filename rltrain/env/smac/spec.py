"""The specs of SMAC's maps and of SMACv2's scenarios, from tables only."""

from __future__ import annotations

from rltrain.battles.data.map_data import MapData
from rltrain.battles.options import Options, block_layout, compute_sizes, require_scale
from rltrain.types import EnvSpec


def make_spec(map_data: MapData, options: Options) -> EnvSpec:
    """The spec of a map or scenario with these options, for either engine. Raises ValueError if
    they do not fit; several maps are checked individually.
    """
    if not map_data.for_any:
        require_scale(map_data, options)
    sizes = compute_sizes(map_data, options)
    return EnvSpec(
        n_agents=map_data.n_agents,
        n_actions=sizes.n_actions,
        obs_shape=(sizes.obs,),
        state_dim=sizes.state,
        max_steps=map_data.limit,
        reports_win=True,
        masks_actions=True,
        layout=block_layout(map_data, options),
    )
