"""Specs of SMAC's maps."""

from rltrain.battles.data.maps import find_map
from rltrain.battles.options import Options
from rltrain.env.smac.backend import make_spec
from rltrain.types import EnvSpec


def env_spec(map_name: str, options: Options | None = None) -> EnvSpec:
    """The spec of a map, without an environment."""
    return make_spec(find_map(map_name), options or Options())
