"""The choice of a backend of ``SmacVectorEnv``, the built-in engine or StarCraft II; the specs of
maps and scenarios, which are the same for both; and battle options as keywords, with rltrain's
number types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from rltrain.battles import option_checks
from rltrain.battles.data.map_data import MapData
from rltrain.battles.native import NativeBattles
from rltrain.battles.options import Options, block_layout, compute_sizes, require_scale
from rltrain.common import number_types
from rltrain.common.keywords import flat_keywords
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.installation import Backend, about_game, choose_backend
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.types import EnvSpec

NUMBERS: Mapping[Any, Any] = {
    getattr(option_checks, name): getattr(number_types, name)
    for name in ("Count", "Flag", "NonNegative", "Positive", "Probability", "Real")
}
"""The ranges of ``rltrain.battles``, and the types that check settings."""


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """The backend and its options. ``auto`` is StarCraft II if it is installed, except for
    ``scripted`` policies, which need the built-in engine."""

    backend: Backend = "native"
    scripted: Flag = False
    n_threads: Count = 1  # native
    max_restarts: Count = 20  # sc2: crashes within an hour, over all environments
    game_timeout: Positive = 300.0  # sc2: seconds that a game may take for a reset or a step


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


def open_battles(
    play: BackendOptions,
    native: Callable[..., NativeBattles],
    *,
    n_envs: int,
    spec: EnvSpec,
    recipe: Recipe,
    map_file: str,
) -> NativeBattles | Games:
    """Battles on the backend selected by ``play``; ``start`` begins their first episodes.

    Args:
        native: makes battles on the built-in engine, given ``n_envs`` and ``n_threads``.
        recipe: the same environment in StarCraft II.
        map_file: the map's file in StarCraft II.

    Raises:
        ValueError: StarCraft II is selected, and a part of it is missing.
    """
    package = recipe.package
    if choose_backend(play.backend, package, map_file, scripted=play.scripted) == "native":
        return native(n_envs=n_envs, n_threads=play.n_threads)
    return Games(
        recipe=recipe,
        spec=spec,
        n_envs=n_envs,
        max_restarts=play.max_restarts,
        timeout_s=play.game_timeout,
        about=about_game(package, recipe.options.get("game_version")),
    )


def checked_keywords(function: Callable[..., None]) -> Callable[..., None]:
    """``flat_keywords`` with rltrain's number types in the signature instead of the ranges; errors
    name a keyword as the setting of an environment."""
    flat = flat_keywords(function, NUMBERS)

    @wraps(flat)
    def checked(*args: object, **keywords: Any) -> None:
        try:
            flat(*args, **keywords)
        except ValueError as error:
            name = re.match(r"\w*(?=[=:])", str(error))
            if name and name[0] in flat.__annotations__:
                raise ValueError(f"env.{error}") from error
            raise

    return checked
