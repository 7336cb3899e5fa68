"""``SmacVectorEnv``: E battles as one vector environment with next-step resets, for training and
testing; ``Smacv2VectorEnv``: those of SMACv2 (Ellis et al., 2023), with teams and start positions
drawn for every episode.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from rltrain.battles.data.map_data import MapData
from rltrain.battles.data.map_file import read_map
from rltrain.battles.data.scenarios import MAP_FILE, find_scenario, scenario_options
from rltrain.battles.engine.enemy_side import EnemySide, equal_teams
from rltrain.battles.native import NativeBattles
from rltrain.battles.option_checks import check_choice
from rltrain.battles.options import (
    Options,
    ProgramOptions,
    SmacOptions,
    Smacv2Options,
    StartOptions,
)
from rltrain.battles.scripted.policies import DECISIONS, BattleDecisions
from rltrain.battles.smaclite.maps import find_map_under
from rltrain.common.number_types import MOST_COUNTED, Count, Flag, saved_array
from rltrain.common.seeding import SeedsOfTests
from rltrain.env.smac.backend import BackendOptions, checked_keywords, make_spec, open_battles
from rltrain.env.smac.several_maps import SeveralMaps, SeveralOptions
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.interfaces import EpisodeSeeds
from rltrain.types import Drawing, EnvSpec, Info, StateDict

TIME_LIMITS = ("terminal", "bootstrap")
BattleBackend = NativeBattles | SeveralMaps | Games
"""E battles in parallel; their arrays hold the current time step."""


class SmacVectorEnv:
    """E environments of one SMAC map, a ``map_file`` or several ``maps``, in lockstep; see
    ``rltrain.interfaces.VectorEnv`` for the arrays.

    ``time_limit`` is "terminal", as in SMAC, or "bootstrap" (``last`` without ``terminated``).
    ``about`` names the backend. The other options are SMAC's, with its defaults; only the game
    reads ``ProgramOptions``.
    """

    frames_per_second = 12.5  # of videos: an env step, half a game second, takes a third of one
    unclipped: np.ndarray | None = None

    @checked_keywords
    def __init__(
        self,
        *,
        map_name: str,
        map_file: str | None = None,
        several: SeveralOptions,
        n_envs: Count,
        rules: Literal["sc2", "smaclite"] = "sc2",
        time_limit: Literal["terminal", "bootstrap"] = "terminal",
        heuristic_ai: Flag = False,
        heuristic_rest: Flag = False,
        play: BackendOptions,
        begin: StartOptions,
        options: SmacOptions,
        program: ProgramOptions,
        two_sided: Flag = False,
    ) -> None:
        check_choice("time_limit", time_limit, TIME_LIMITS)
        own = None if map_file is None else read_map(map_file)
        if own is not None and (play.backend == "sc2" or rules != "sc2"):
            raise ValueError(
                f"env.map_file={map_file} is a map of the built-in engine under its own rules: "
                "type env=smac env.backend=native env.rules=sc2, or env.map_file=null."
            )
        chosen = Options(**asdict(options))
        heuristic: dict[str, Any] = {"heuristic_ai": heuristic_ai, "heuristic_rest": heuristic_rest}
        native = partial(NativeBattles, options=chosen, rules=rules, begin=begin, **heuristic)
        if several.maps is not None:
            if begin.start_positions is not None:
                raise ValueError(
                    f"env.start_positions={begin.start_positions} apply to one map, and env.maps="
                    f"{several.maps} has its own. Type env.start_positions=null."
                )
            if own and own.name not in several.maps:
                raise ValueError(
                    f"env.map_file={map_file} is none of env.maps={several.maps}. Type "
                    f"'env.maps=[{','.join([*several.maps, own.name])}]', or env.map_file=null."
                )

            def find(name: str) -> MapData:
                """A map by name, including that of the file."""
                return own if own and own.name == name else find_map_under(rules, name)

            many = SeveralMaps(
                several, play, find, chosen, native, n_envs=n_envs, two_sided=two_sided
            )
            self._open(many, many.spec, time_limit, chosen)
            return
        row = own or find_map_under(rules, map_name)
        if two_sided:
            play = commanded_natively(play, rules)
        if rules != "sc2" and play.backend == "sc2":
            raise ValueError(
                f"env.backend=sc2 plays the game's own rules, and env.rules={rules} are others: "
                "type env=smac env.rules=sc2, or env.backend=native."
            )
        moved = bool(begin.jitter) or begin.start_positions is not None
        if moved and play.backend == "sc2":
            raise ValueError(
                "env.start=jittered and env.start_positions change the start positions of the "
                "built-in engine, and StarCraft II places its units itself: type env.start=fixed "
                "env.start_positions=null, or env.backend=native."
            )
        if own is not None or rules != "sc2" or moved:
            play = replace(play, backend="native")
        spec = make_spec(row, chosen)
        native = partial(native, map_data=row, two_sided=two_sided)
        of_game = {
            **asdict(options),
            "map_name": row.name,
            **heuristic,
            **asdict(program),
            "difficulty": str(program.difficulty),
        }
        recipe = Recipe("smac", of_game)
        battles = open_battles(
            play, native, n_envs=n_envs, spec=spec, recipe=recipe, map_file=row.name
        )
        self._open(battles, spec, time_limit, chosen)

    def _open(
        self, battles: BattleBackend, spec: EnvSpec, time_limit: str, options: Options
    ) -> None:
        """Take over new battles; their first episodes begin with ``reset``."""
        self.battles, self.spec = battles, spec
        self.n_envs, self.about = battles.n_envs, battles.about
        self.obs, self.avail_actions, self.state = battles.obs, battles.avail, battles.state
        self.last = np.zeros(self.n_envs, np.bool_)
        self.infos: list[Info] = [{} for _ in range(self.n_envs)]
        self.episode = np.zeros(self.n_envs, np.int64)  # k of each environment's current episode
        self.lost = battles.lost
        self.has_drawing = battles.exact
        other = battles.other if isinstance(battles, NativeBattles) else None
        self.other_side = None if other is None else SmacOtherSide(other, options)
        self._bootstrap = time_limit == "bootstrap"
        self._seeds: EpisodeSeeds | None = None
        self.call, self.render, self.scripted = battles.call, battles.render, battles.scripted
        self.save_replay, self.close = battles.save_replay, battles.close

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every environment; episode k of environment e is seeded with
        ``seeds(e, k)``.
        """
        self._seeds = seeds
        self.episode[:] = 0
        self.battles.start({e: self._begin(e, 0) for e in range(self.n_envs)})
        self.last[:] = False
        self.infos[:] = [{} for _ in range(self.n_envs)]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, 1] float32, terminated [E] bool). Raises ValueError if
        one is illegal."""
        if self._seeds is None:
            raise RuntimeError("this environment was never reset: call reset(seeds) first")
        over = np.flatnonzero(self.last).tolist()
        seeds = {e: self._begin(e, int(self.episode[e]) + 1) for e in over}
        side = self.other_side
        self.battles.step(action, seeds, None if side is None else side.action)
        self.episode[over] += 1
        for e in over:
            self.infos[e] = {}
        self.last[:] = terminated = self.battles.ended
        if terminated.any():
            self._write_results()
            if self._bootstrap:
                terminated = terminated & ~self.battles.timeout
        return self.battles.reward.astype(np.float32)[:, None], terminated

    def _write_results(self) -> None:
        """Write the results of the episodes that just ended to ``infos``."""
        ended = np.flatnonzero(self.last).tolist()
        for e, result in zip(ended, self.battles.results(ended), strict=True):
            self.infos[e] = result

    def drawing(self, e: int) -> Drawing:
        """Units and positions of the current time step of battle e, on the built-in engine."""
        return Drawing(*cast(NativeBattles | SeveralMaps, self.battles).drawing(e))

    def state_dict(self) -> StateDict:
        """The state of all environments; for the game, only its episode number. Seeds are not
        included: ``reset`` sets them, ``load_state_dict`` keeps them."""
        return {"episode": self.episode.copy(), **self.battles.state_dict()}

    def load_state_dict(self, state: StateDict) -> None:
        """Continue exactly where ``state_dict`` was taken; games begin their next episodes. Call
        ``reset(seeds)`` once before, with the same seeds.

        Raises:
            ValueError: the state belongs to other battles or to the other backend.
        """
        exact = self.battles.exact
        if state.get("exact", True) != exact:
            raise ValueError(
                f"the saved battles were not played by the backend {self.about['backend']!r} that "
                "plays here: install or hide StarCraft II as it was (SC2PATH), or start a new run "
                "from these weights"
            )
        episode = saved_array("env.episode", state["episode"], self.episode, 0, MOST_COUNTED)
        self.episode[:] = episode if exact else episode + 1
        assert self._seeds is not None, "load_state_dict before reset"
        seeds = {e: self._seeds(e, k) for e, k in enumerate(self.episode.tolist())}
        self.battles.resume(state, seeds)
        self.last[:] = self.battles.ended
        self.infos[:] = [{} for _ in range(self.n_envs)]
        self._write_results()

    def _begin(self, e: int, k: int) -> int:
        """The seed of episode k of environment e; chooses its map if there are several."""
        seeds = self._seeds
        assert seeds is not None, "an episode before reset"
        seed = seeds(e, k)
        if isinstance(self.battles, SeveralMaps):
            number = seeds.number(e, k) if isinstance(seeds, SeedsOfTests) else None
            self.battles.choose(e, seed, number)
        return seed

    def carried(self) -> StateDict:
        """The win rate on each map."""
        return {"wins": self.battles.wins.copy()} if isinstance(self.battles, SeveralMaps) else {}

    def restart(self, state: StateDict) -> None:
        """Load the win rate on each map."""
        if isinstance(self.battles, SeveralMaps):
            wins = self.battles.wins
            wins[:] = saved_array("env.wins", state["wins"], wins, 0, 1)


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


def commanded_natively(play: BackendOptions, rules: str = "sc2") -> BackendOptions:
    """The backend of battles in which opponents command the enemies.

    Raises:
        ValueError: the backend or rules do not support it.
    """
    if play.backend == "sc2" or rules != "sc2":
        wrong, right = f"env.rules={rules}", "env=smac env.rules=sc2"
        if play.backend == "sc2":
            wrong, right = "env.backend=sc2", "env.backend=native"
        raise ValueError(
            f"An opponent commands the enemies of the built-in engine under its own rules, and "
            f"with {wrong} they command themselves: type {right}, or env.opponent=builtin."
        )
    return replace(play, backend="native")


class SmacOtherSide:
    """The other side of ``SmacVectorEnv``; see ``rltrain.interfaces.OtherSide``."""

    builtin, policies = True, ", ".join(("random", *DECISIONS))
    equal_teams = (
        "are equal (3m, 8m, 25m, 2s3z, 3s5z, 1c3s5z, MMM, bane_vs_bane, SMACv2 with n_vs_n)"
    )

    def __init__(self, side: EnemySide, options: Options) -> None:
        self._side, self.spec = side, make_spec(side.map_data, options)
        self.obs, self.avail_actions, self.state = side.obs, side.avail, side.state
        self.n_envs = len(side.obs)
        self.action = np.zeros(side.obs.shape[:2], np.int64)
        self.commanded = side.commanded
        self.same_team = equal_teams(side.map_data)

    def scripted(self, name: str) -> BattleDecisions:
        """The decision function of a scripted policy. Raises ValueError for an unknown name."""
        if name not in DECISIONS:
            raise ValueError(f"unknown scripted policy {name!r}: expected one of {self.policies}")
        return BattleDecisions(self._side, DECISIONS[name])
