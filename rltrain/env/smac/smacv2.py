"""``Smacv2VectorEnv``: E battles of SMACv2 (Ellis et al., 2023), with teams and start positions
drawn for every episode."""

from __future__ import annotations

from functools import partial
from typing import Literal

from rltrain.battles.data.scenarios import MAP_FILE, find_scenario, scenario_options
from rltrain.battles.native import NativeBattles
from rltrain.battles.option_checks import check_choice
from rltrain.battles.options import Smacv2Options
from rltrain.common.number_types import Count, Flag
from rltrain.env.smac.backend import BackendOptions, make_spec, open_battles
from rltrain.env.smac.checked_keywords import checked_keywords
from rltrain.env.smac.several_maps import SeveralMaps, SeveralOptions
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.env.smac.vector import TIME_LIMITS, SmacVectorEnv, commanded_natively


class Smacv2VectorEnv(SmacVectorEnv):
    """E environments of one SMACv2 scenario in lockstep; see ``rltrain.interfaces.VectorEnv`` for
    the arrays.

    ``map_name`` is ``<race>_<agents>_vs_<enemies>``; ``backend`` as in ``SmacVectorEnv``. The
    options are SMACv2's own; ``zero_enemy_block`` and ``fixed_max_reward`` reproduce bugs of its
    published code (``field_of_view.register``, ``Options``). Raises ValueError for an unknown
    scenario.
    """

    @checked_keywords
    def __init__(
        self,
        *,
        map_name: str,
        several: SeveralOptions,
        n_envs: Count,
        time_limit: Literal["terminal", "bootstrap"] = "terminal",
        play: BackendOptions,
        options: Smacv2Options,
        two_sided: Flag = False,
    ) -> None:
        check_choice("time_limit", time_limit, TIME_LIMITS)
        native = partial(NativeBattles, options=options)
        if several.maps is not None:
            many = SeveralMaps(
                several, play, find_scenario, options, native, n_envs=n_envs, two_sided=two_sided
            )
            self._open(many, many.spec, time_limit, options)
            return
        if two_sided:
            play = commanded_natively(play)
        row = find_scenario(map_name)
        spec = make_spec(row, options)
        native = partial(native, map_data=row, two_sided=two_sided)
        recipe = Recipe("smacv2", {**options.smacv2_options(), **scenario_options(row)})
        battles = open_battles(
            play, native, n_envs=n_envs, spec=spec, recipe=recipe, map_file=MAP_FILE
        )
        self._open(battles, spec, time_limit, options)
