"""``StarCraftCapabilityEnv``: one battle of SMACv2 (Ellis et al., 2023) behind SMAC's methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rltrain.battles.data.scenarios import RACES, find_scenario
from rltrain.battles.data.smacv2_config import scenario_options
from rltrain.battles.options import Smacv2Options
from rltrain.battles.starcraft2_env import StarCraft2Env


class StarCraftCapabilityEnv(StarCraft2Env):
    """One SMACv2 battle behind SMAC's methods, with the published settings as defaults.

    ``map_name`` is a scenario (``terran_5_vs_5``), or ``10gen_terran``, ``10gen_protoss``,
    ``10gen_zerg`` with ``n_units`` and ``n_enemies`` in ``capability_config``, as SMACv2 names
    them. Raises ValueError for an unknown scenario and for other teams than the published ones.
    """

    def __init__(
        self,
        map_name: str = "10gen_terran",
        capability_config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        name = _scenario_of(map_name, capability_config or {})
        published = asdict(Smacv2Options())
        super().__init__(map_name=find_scenario(name).name, **(published | options))


def _scenario_of(map_name: str, config: Mapping[str, Any]) -> str:
    """The scenario that SMACv2's way of naming it means."""
    race = map_name.removeprefix("10gen_")
    if race not in RACES or race == map_name:
        return map_name
    name = f"{race}_{config.get('n_units', 10)}_vs_{config.get('n_enemies', 10)}"
    published = scenario_options(find_scenario(name))["capability_config"]
    unknown = config.keys() - published.keys()
    other = {
        f"{part}.{key}"
        for part in ("team_gen", "start_positions")
        for key, value in config.get(part, {}).items()
        if published[part].get(key, []) != value
    }
    if unknown or other:
        raise ValueError(
            f"capability_config: {', '.join(sorted(unknown | other))} cannot be chosen here: teams "
            f"and start positions are drawn as published, {published}. Leave those keys out and "
            "give n_units and n_enemies."
        )
    return name
