"""``StarCraftCapabilityEnv``: one battle of SMACv2 (Ellis et al., 2023) behind SMAC's methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rltrain.battles.data.scenarios import RACES, find_scenario, scenario_options
from rltrain.battles.option_checks import COUNT
from rltrain.battles.options import Smacv2Options
from rltrain.battles.starcraft2_env import StarCraft2Env

NOT_PLAYED = {"obs_starcraft": True, "kill_unit_step_mul": 2}
"""Options of SMACv2 that have one value here."""


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
        name = _scenario_name(map_name, {} if capability_config is None else capability_config)
        for key, value in NOT_PLAYED.items():
            if options.pop(key, value) != value:
                raise ValueError(
                    f"{key}: only {value!r}, the default of SMACv2, can be played here"
                )
        published = asdict(Smacv2Options())
        super().__init__(map_name=find_scenario(name).name, **(published | options))


def _scenario_name(map_name: str, config: Mapping[str, Any]) -> str:
    """The scenario that SMACv2's way of naming it means."""
    race, sizes = str(map_name).removeprefix("10gen_"), dict.fromkeys(("n_units", "n_enemies"), 10)
    if not isinstance(config, Mapping):
        raise ValueError(f"capability_config={config!r}: expected a mapping, such as {sizes}")
    positions = config.get("start_positions")
    if isinstance(positions, Mapping) and "n_enemies" in positions:  # as in SMACv2's own example
        sizes["n_enemies"] = positions["n_enemies"]
    sizes |= {key: config[key] for key in sizes if key in config}
    COUNT.check(**{f"capability_config.{key}": value for key, value in sizes.items()})
    if race in RACES and race != map_name:
        map_name = f"{race}_{sizes['n_units']}_vs_{sizes['n_enemies']}"
    if not config:
        return map_name
    published = scenario_options(find_scenario(map_name))["capability_config"]
    published["start_positions"]["n_enemies"] = published["n_enemies"]
    other = sorted(_differing(config, published))
    if other:
        raise ValueError(
            f"capability_config: {', '.join(other)} cannot be chosen here: teams and start "
            f"positions of {map_name} are drawn as published, {published}. Leave those keys out "
            "and give n_units and n_enemies."
        )
    return map_name


def _differing(config: Mapping[str, object], published: Mapping[str, object]) -> Iterator[str]:
    """The keys whose values are not the published ones."""
    for key, value in config.items():
        expected = published.get(key, [])
        if isinstance(expected, dict) and isinstance(value, Mapping):
            yield from (f"{key}.{below}" for below in _differing(value, expected))
        elif (list(value) if isinstance(value, tuple) else value) != expected:
            yield key
