"""``StarCraftCapabilityEnv``: one battle of SMACv2 (Ellis et al., 2023) behind SMAC's methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

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

    def get_env_info(self) -> dict[str, object]:
        """Sizes and feature names; works before the first reset."""
        return {**super().get_env_info(), "cap_shape": self.get_cap_size()}

    def get_cap_size(self) -> int:
        return self.unit_type_bits

    def get_capabilities_agent(self, agent_id: int) -> np.ndarray:
        """float32 [types]: 1 at the type of the agent in this episode."""
        kind = self.battles.table("type_bit", 0)[agent_id]
        return (np.arange(self.unit_type_bits) == kind).astype(np.float32)

    def get_capabilities(self) -> np.ndarray:
        """float32 [A * types]: those of all agents in a row."""
        return np.concatenate([self.get_capabilities_agent(i) for i in range(self.n_agents)])

    def get_obs_feature_names(self) -> list[str]:
        """The names of the numbers of agent 0's observation; others see other allies there."""
        chosen, bits = self.battles.options, range(self.unit_type_bits)
        ally, enemy = _health(self.map_data.shield_bits)
        shown = ["distance_{}", "relative_x_{}", "relative_y_{}"]
        types = [f"unit_type_{{}}_bit_{bit}" for bit in bits]
        actions = [f"last_action_{{}}_action_{a}" for a in range(self.n_actions)]
        enemies = ["shootable_{}", *shown, *enemy * chosen.obs_all_health, *types]
        allies = ["visible_{}", *shown, *ally * chosen.obs_all_health, *types]
        allies += actions * chosen.obs_last_action
        own = [name.removesuffix("_{}") for name in ally] * chosen.own_health
        own += ["pos_x", "pos_y"] * chosen.obs_own_pos + ["fov_x", "fov_y"] * chosen.conic_fov
        own += [f"unit_type_bit_{bit}" for bit in bits]
        return [
            *(f"move_action_{direction}" for direction in ("north", "south", "east", "west")),
            *(f"pathing_grid_{n}" for n in range(8 * chosen.obs_pathing_grid)),
            *(f"terrain_height_{n}" for n in range(9 * chosen.obs_terrain_height)),
            *_named("enemy", range(self.n_enemies), enemies),
            *_named("ally", range(1, self.n_agents), allies),
            *(f"own_{name}" for name in own),
            *["timestep"] * chosen.obs_timestep_number,
        ]

    def get_state_feature_names(self) -> list[str]:
        """The names of the numbers of the state, unless it is made of observations."""
        chosen = self.battles.options
        if chosen.obs_instead_of_state:
            raise ValueError("obs_instead_of_state: the names are those of get_obs_feature_names")
        (health, *ally), (_, *enemy) = _health(self.map_data.shield_bits)
        place = ["relative_x_{}", "relative_y_{}"]
        types = [f"unit_type_{{}}_bit_{bit}" for bit in range(self.unit_type_bits)]
        cone = ["fov_x_{}", "fov_y_{}"] * chosen.conic_fov
        actions = [f"last_action_{{}}_action_{a}" for a in range(self.n_actions)]
        agents, allies = range(self.n_agents), [health, "cooldown_{}", *place, *ally, *cone, *types]
        return [
            *_named("ally", agents, allies),
            *_named("enemy", range(self.n_enemies), [health, *place, *enemy, *types]),
            *_named("ally", agents, actions * chosen.state_last_action),
            *["timestep"] * chosen.state_timestep_number,
        ]


def _health(shield_bits: tuple[int, int]) -> list[list[str]]:
    """Names of the health, and of the shield if there is one, of agents and enemies."""
    return [["health_{}", *["shield_{}"] * bits] for bits in shield_bits]


def _named(team: str, units: Iterable[int], names: Sequence[str]) -> list[str]:
    """The names of several units' features, in which ``{}`` stands for the number of the unit."""
    return [f"{team}_{name.format(i)}" for i in units for name in names]


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
