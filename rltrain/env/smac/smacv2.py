"""SMACv2 (Ellis et al., 2023), teams and start positions drawn for every episode: many battles as
``Smacv2VectorEnv``, one as ``StarCraftCapabilityEnv``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rltrain.common.number_types import (
    Count,
    Flag,
    NonNegative,
    Positive,
    Probability,
    Real,
)
from rltrain.env.smac.data.scenarios import (
    RACES,
    REFLECT,
    find_scenario,
    race_of,
)
from rltrain.env.smac.engine.battles import Battles
from rltrain.env.smac.options import Options, spec_of
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.installation import Backend, about_game, choose_backend
from rltrain.env.smac.starcraft2.smacv2_config import MAP_FILE, scenario_options
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.env.smac.starcraft2_env import StarCraft2Env
from rltrain.env.smac.vector import NATIVE, SmacVectorEnv, check_choice
from rltrain.interfaces import EpisodeSeeds


class Smacv2VectorEnv(SmacVectorEnv):
    """E environments of one SMACv2 scenario in lock-step; see ``rltrain.types.VectorEnv`` for the
    arrays.

    ``map_name`` is ``<race>_<agents>_vs_<enemies>``; ``backend`` as in ``SmacVectorEnv``. The
    options are SMACv2's own; ``zero_enemy_block`` and ``fixed_max_reward`` bring back slips of its
    published program (``field_of_view.register``, ``Options``). Raises ValueError for an unknown
    scenario.
    """

    def __init__(
        self,
        *,
        map_name: str,
        n_envs: Count,
        conic_fov: Flag,
        num_fov_actions: Count,
        obs_own_pos: Flag,
        use_unit_ranges: Flag,
        min_attack_range: NonNegative,
        prob_obs_enemy: Probability,
        action_mask: Flag,
        fully_observable: Flag,
        zero_enemy_block: Flag,
        fixed_max_reward: Flag,
        time_limit: Literal["terminal", "bootstrap"] = "terminal",
        n_threads: Count = 1,
        scripted: Flag = False,
        backend: Backend = "native",
        max_restarts: Count = 20,
        game_timeout: Positive = 300.0,
        step_mul: Count = 8,
        move_amount: Positive = 2.0,
        obs_all_health: Flag = True,
        obs_own_health: Flag = True,
        obs_last_action: Flag = False,
        obs_pathing_grid: Flag = False,
        obs_terrain_height: Flag = False,
        obs_instead_of_state: Flag = False,
        obs_timestep_number: Flag = False,
        state_last_action: Flag = True,
        state_timestep_number: Flag = False,
        reward_sparse: Flag = False,
        reward_only_positive: Flag = True,
        reward_death_value: NonNegative = 10.0,
        reward_win: Real = 200.0,
        reward_defeat: Real = 0.0,
        reward_negative_scale: NonNegative = 0.5,
        reward_scale: Flag = True,
        reward_scale_rate: Positive = 20.0,
    ) -> None:
        check_choice("time_limit", time_limit, ("terminal", "bootstrap"))
        options = Options(
            conic_fov=conic_fov,
            num_fov_actions=num_fov_actions,
            obs_own_pos=obs_own_pos,
            use_unit_ranges=use_unit_ranges,
            min_attack_range=min_attack_range,
            prob_obs_enemy=prob_obs_enemy,
            action_mask=action_mask,
            fully_observable=fully_observable,
            zero_enemy_block=zero_enemy_block,
            fixed_max_reward=fixed_max_reward,
            step_mul=step_mul,
            move_amount=move_amount,
            obs_all_health=obs_all_health,
            obs_own_health=obs_own_health,
            obs_last_action=obs_last_action,
            obs_pathing_grid=obs_pathing_grid,
            obs_terrain_height=obs_terrain_height,
            obs_instead_of_state=obs_instead_of_state,
            obs_timestep_number=obs_timestep_number,
            state_last_action=state_last_action,
            state_timestep_number=state_timestep_number,
            reward_sparse=reward_sparse,
            reward_only_positive=reward_only_positive,
            reward_death_value=reward_death_value,
            reward_win=reward_win,
            reward_defeat=reward_defeat,
            reward_negative_scale=reward_negative_scale,
            reward_scale=reward_scale,
            reward_scale_rate=reward_scale_rate,
        )
        row = find_scenario(map_name)
        battles: Battles | Games | None = None
        spec = spec_of(row, options)
        if choose_backend(backend, "smacv2", MAP_FILE, scripted=scripted) == "sc2":
            race = race_of(row)
            scenario = scenario_options(
                race=row.map_type.removesuffix("_gen"),
                n_agents=row.n_agents,
                n_enemies=row.n_enemies,
                weights=race.weights,
                exception=race.exception,
                reflect=REFLECT,
            )
            battles = Games(
                recipe=Recipe("smacv2", {**options.of_smacv2(), **scenario}),
                spec=spec,
                n_envs=n_envs,
                max_restarts=max_restarts,
                patience=game_timeout,
            )
        about = NATIVE if battles is None else about_game("smacv2")
        if battles is None:
            battles = Battles(
                map_name=row.name, n_envs=n_envs, options=options, n_threads=n_threads
            )
        self._open(battles, spec, time_limit, about)

    def reset(self, seeds: EpisodeSeeds) -> None:
        """As in ``SmacVectorEnv``; a fixed scale of rewards is computed again."""
        if isinstance(self.battles, Battles):
            self.battles.world.factor[:] = 0.0
        super().reset(seeds)


SHIPPED = {"obs_own_pos": True, "use_unit_ranges": True}
"""Where the settings that SMACv2 is published with differ from SMAC's."""


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
        super().__init__(map_name=find_scenario(name).name, **(SHIPPED | options))


def _scenario_of(map_name: str, config: Mapping[str, Any]) -> str:
    """The scenario that SMACv2's way of naming it means."""
    race = map_name.removeprefix("10gen_")
    if race not in RACES or race == map_name:
        return map_name
    weights, exception = RACES[race].weights, RACES[race].exception
    published: dict[str, Any] = {
        "team_gen": {
            "dist_type": "weighted_teams",
            "unit_types": list(weights),
            "weights": list(weights.values()),
            "exception_unit_types": [exception] if exception else [],
        },
        "start_positions": {"dist_type": "surrounded_and_reflect", "p": REFLECT},
    }
    unknown = set(config) - {"n_units", "n_enemies", *published}
    other = {
        f"{part}.{key}"
        for part, settings in published.items()
        for key, value in settings.items()
        if dict(config.get(part, {})).get(key, value) != value
    }
    if unknown or other:
        raise ValueError(
            f"capability_config: {', '.join(sorted(unknown | other))} cannot be chosen here: teams "
            f"and start positions are drawn as published, {published}. Leave those keys out and "
            "give n_units and n_enemies."
        )
    return f"{race}_{config.get('n_units', 10)}_vs_{config.get('n_enemies', 10)}"
