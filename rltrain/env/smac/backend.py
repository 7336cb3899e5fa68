"""The choice of a backend of ``SmacVectorEnv``: the built-in engine or StarCraft II."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rltrain.battles.native import NativeBattles
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.installation import Backend, about_game, choose_backend
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.types import EnvSpec


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """The backend and its options. ``auto`` is StarCraft II if it is installed, except for
    ``scripted`` policies, which need the built-in engine."""

    backend: Backend = "native"
    scripted: Flag = False
    n_threads: Count = 1  # native
    max_restarts: Count = 20  # sc2: crashes within an hour, over all environments
    game_timeout: Positive = 300.0  # sc2: seconds that a game may take for a reset or a step


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
