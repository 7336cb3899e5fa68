"""Maps, games and ids of environments, looked up before torch is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from rltrain.config.schema import Settings
from rltrain.errors import UsageError

Keywords = Mapping[str, Any]


def require_environments(settings: Settings) -> None:
    """Refuse an unknown map, game or id, of tests too; custom environments are not looked up.

    Raises:
        UsageError: as the environment itself would say it.
    """
    for start in ("", "test."):
        node = settings.nodes[f"{start}env"]
        if node.target in LOOKED_UP:
            try:
                LOOKED_UP[node.target](node.kwargs)
            except ValueError as error:
                raise UsageError(f"{start}{error}") from error


def gymnasium_id(kwargs: Keywords) -> None:
    """Refuse an id that Gymnasium does not have; classes and ids of a module pass."""
    from rltrain.env.gymnasium_advice import require_registered

    if ":" not in kwargs["id"]:
        require_registered(kwargs["id"])


def atari_game(kwargs: Keywords) -> None:
    """Refuse a game that ALE does not have."""
    from rltrain.env.gymnasium_advice import require_game

    if find_spec("ale_py"):  # the environment names the package where it is missing
        require_game(kwargs["game"])


def battle_map(kwargs: Keywords) -> None:
    """Refuse an unknown map of SMAC or scenario of SMACv2, if its name counts."""
    from rltrain.battles.data.scenarios import find_scenario
    from rltrain.battles.smaclite.maps import find_map_under

    name = kwargs["map_name"]
    if kwargs.get("map_file") or kwargs.get("maps"):
        return
    try:
        find_map_under(kwargs["rules"], name) if "rules" in kwargs else find_scenario(name)
    except ValueError as error:
        raise ValueError(f"env.map_name={name!s:.80}: {error}") from error


LOOKED_UP: Mapping[str, Callable[[Keywords], None]] = {
    "rltrain.env.gymnasium_env": gymnasium_id,
    "rltrain.env.AtariVectorEnv": atari_game,
    "rltrain.env.smac.SmacVectorEnv": battle_map,
    "rltrain.env.smac.Smacv2VectorEnv": battle_map,
}
