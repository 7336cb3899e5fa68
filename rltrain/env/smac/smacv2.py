"""SMACv2 (Ellis et al., 2023), teams and start positions drawn for every episode: many battles as
``Smacv2VectorEnv``, one as ``StarCraftCapabilityEnv``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from rltrain.battles.data.scenarios import RACES, find_scenario
from rltrain.battles.data.smacv2_config import MAP_FILE, scenario_options
from rltrain.battles.native import NativeBattles
from rltrain.battles.options import Smacv2Options, spec_of
from rltrain.battles.starcraft2_env import StarCraft2Env
from rltrain.common.keywords import flat_keywords
from rltrain.common.number_types import Count
from rltrain.env.smac.backend import BackendOptions, open_battles
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.env.smac.vector import TIME_LIMITS, SmacVectorEnv, check_choice


class Smacv2VectorEnv(SmacVectorEnv):
    """E environments of one SMACv2 scenario in lock-step; see ``rltrain.interfaces.VectorEnv`` for
    the arrays.

    ``map_name`` is ``<race>_<agents>_vs_<enemies>``; ``backend`` as in ``SmacVectorEnv``. The
    options are SMACv2's own; ``zero_enemy_block`` and ``fixed_max_reward`` restore bugs of its
    published program (``field_of_view.register``, ``Options``). Raises ValueError for an unknown
    scenario.
    """

    @flat_keywords
    def __init__(
        self,
        *,
        map_name: str,
        n_envs: Count,
        time_limit: Literal["terminal", "bootstrap"] = "terminal",
        play: BackendOptions,
        options: Smacv2Options,
    ) -> None:
        check_choice("time_limit", time_limit, TIME_LIMITS)
        row = find_scenario(map_name)
        spec = spec_of(row, options)
        native = partial(NativeBattles, map_name=row.name, options=options)
        recipe = Recipe("smacv2", {**options.of_smacv2(), **scenario_options(row)})
        battles = open_battles(
            play, native, n_envs=n_envs, spec=spec, recipe=recipe, map_file=MAP_FILE
        )
        self._open(battles, spec, time_limit)


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
