"""``Battles``: E battles of one map side by side, the Python interface of the compiled engine.

``SmacVectorEnv`` and ``StarCraft2Env`` are built on this class. To place units oneself,
write into ``world`` and call ``refresh``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numba
import numpy as np

from rltrain.battles.data import terrain
from rltrain.battles.data.map_data import SIZE, MapData
from rltrain.battles.data.spawn import Positions
from rltrain.battles.data.units import UnitType
from rltrain.battles.engine import env_step, teams
from rltrain.battles.engine.compile_cache import MAX_THREADS
from rltrain.battles.engine.enemy_side import EnemySide
from rltrain.battles.engine.episode import reset_battle
from rltrain.battles.engine.saved_state import AROUND, ON_MAP, load_world
from rltrain.battles.engine.tables import build_drawn, build_reward, build_scene, build_view
from rltrain.battles.engine.world import Outcome, U, build_frame, build_world
from rltrain.battles.option_checks import COUNT, NOT_NEGATIVE, SEED, Range, check_choice
from rltrain.battles.options import Options, compute_sizes, max_reward_against
from rltrain.battles.smaclite import env_step as smaclite
from rltrain.battles.smaclite.maps import RULES, find_battle
from rltrain.battles.smaclite.scene import build_lite_scene

UNITS_PER_CALL = 512
"""Fewer units than this in one call are stepped faster by one thread than threads can be woken."""


class IllegalAction(ValueError):
    """An agent chose an action that is not available to it; nothing was changed."""

    @classmethod
    def of(cls, e: int, agent: int, chosen: int, legal: Sequence[int]) -> IllegalAction:
        """The error for one agent of environment e."""
        return cls(
            f"illegal action in environment {e}: agent {agent} chose {chosen}, "
            f"available are {legal}"
        )


def check_shape(action: np.ndarray, avail: np.ndarray) -> None:
    """Raise ValueError unless actions [E, A] fit ``avail`` [E, A, n_actions]."""
    if action.shape != avail.shape[:2]:
        raise ValueError(
            f"actions have the wrong shape: expected {avail.shape[:2]} (environments, agents), got "
            f"{action.shape}"
        )


def whole_actions(action: object) -> np.ndarray:
    """Actions as int64; ValueError unless all are whole numbers."""
    with suppress(TypeError, ValueError), np.errstate(invalid="ignore"):
        given = np.asarray(action)
        if given.dtype.kind in "biuf":
            whole = np.ascontiguousarray(given, np.int64)
            if given.dtype.kind in "bi" or (whole == given).all():
                return whole
    raise ValueError(f"actions: expected whole numbers, got {action!r:.200}")


class Battles:
    """Arrays obs [E, A, O], avail [E, A, n_actions], state [E, S], reward [E] show the current step
    of E battles of the map of a name, or of ``map_data`` itself, made for these rules.

    ``jitter`` moves start positions by up to so many cells along each axis, drawn per battle.
    ``starts`` replace the start positions of the map; of several each battle draws one.
    With ``two_sided`` the enemies can be commanded as the agents are, through ``other``.
    """

    def __init__(
        self,
        *,
        map_name: str = "",
        map_data: MapData | None = None,
        n_envs: int,
        options: Options,
        n_threads: int = 1,
        rules: str = "sc2",
        jitter: float = 0.0,
        starts: Sequence[Positions] = (),
        two_sided: bool = False,
    ) -> None:
        COUNT.check(n_envs=n_envs, n_threads=n_threads)
        NOT_NEGATIVE.check(jitter=jitter)
        check_choice("rules", rules, RULES)
        n_envs, n_threads = int(n_envs), int(n_threads)
        if two_sided and rules != "sc2":
            raise ValueError(
                f"with rules={rules} only the engine commands the enemies: choose rules=sc2."
            )
        self.map_data = map_data or find_battle(rules, map_name)
        if rules != "sc2" and options.beyond_smac:
            names = ", ".join(options.beyond_smac)
            why = f"rules={rules} has SMAC's options only, not SMACv2's"
            raise ValueError(f"{names}: {why}. Choose rules=sc2, or leave them out.")
        self.options, self.n_envs = options, n_envs
        self.sizes = compute_sizes(self.map_data, options)
        self.roster: teams.Roster | None = None
        if self.map_data.drawn_from:
            self.roster, self.scene = build_drawn(self.map_data, options, n_envs)
        elif rules == "smaclite":
            self.scene = build_lite_scene(self.map_data, options)
        else:
            self.scene = build_scene(self.map_data, options, starts)
        self.scene = self.scene._replace(jitter=np.float32(jitter))
        self.max_distance = terrain.PLAYABLE if rules == "sc2" else SIZE
        self.shown = build_view(self.map_data, options, self.max_distance, int(rules == "sc2"))
        self.rule = build_reward(self.map_data, options)
        self.world = build_world(self.scene, n_envs)
        self.frame = build_frame(self.scene, self.sizes, n_envs)
        self.obs, self.avail, self.state = self.frame.obs, self.frame.avail, self.frame.state
        self.reward = self.frame.reward
        self.orders: Callable[[], np.ndarray] | None = None  # of the current step, [E, A]
        self.n_threads = min(n_threads, MAX_THREADS, n_envs)
        self._seed = np.zeros(n_envs, np.uint64)
        self._restart = np.zeros(n_envs, np.bool_)
        self._known = Range(f"a whole number from 0 to {n_envs - 1}", 0, n_envs - 1, whole=True)
        self._begun = np.zeros(n_envs, np.bool_)
        battle = self.scene, self.shown, self.world
        self.other = EnemySide(self.map_data, options, battle, self.roster) if two_sided else None

    def reset(self, seeds: Mapping[int, int]) -> None:
        """Restart the battles e of ``seeds``, each with its own seed; the others stay as they
        are. Raises ValueError for a battle or a seed that there is not."""
        self._take_seeds(seeds)
        self._recruit()
        for e in seeds:
            reset_battle(self.scene, self.shown, self.world, self.frame, e, self._seed[e])
        self._show_other(seeds)

    def step(
        self,
        action: np.ndarray,
        restarts: Mapping[int, int] | None = None,
        other_action: np.ndarray | None = None,
    ) -> None:
        """One env step with action [E, A]; battles in ``restarts`` (e to seed) restart instead.
        ``other_action`` [E, enemies] is that of ``other``, and 0 where it commands nothing.

        Finished battles that are not restarted stay frozen with reward 0. If ``self.orders`` is
        set, what it returns (in SMAC's numbers, attacks from 6 on) is carried out in place of the
        actions; neither need be available then. Raises ``IllegalAction``, ValueError for what are
        no actions, battles or seeds, and RuntimeError if a battle was never reset.
        """
        action, restarts = whole_actions(action), restarts or {}
        check_shape(action, self.avail)
        self._take_seeds(restarts)
        self._require_begun(e for e in range(self.n_envs) if e not in restarts)
        orders = None if self.orders is None else self.orders()
        self._check(action, any_action=orders is not None)
        if self.other is not None and other_action is not None:
            other_action = whole_actions(other_action)
            check_shape(other_action, self.other.avail)
            self._check(other_action, any_action=False, side=self.other)
            self.other.command(other_action, self._restart)
        if restarts:
            self._recruit()
        kernels = smaclite if self.scene.smaclite else env_step
        advance = kernels.advance_serial
        if self.n_threads > 1 and self.world.unit.shape[2] * self.n_envs >= UNITS_PER_CALL:
            numba.set_num_threads(self.n_threads)
            advance = kernels.advance_parallel
        advance(
            self.scene,
            self.shown,
            self.rule,
            self.world,
            self.frame,
            action,
            action if orders is None else orders,
            orders is not None,
            self._restart,
            self._seed,
        )
        self._show_other(restarts)

    def _show_other(self, seeds: Mapping[int, int]) -> None:
        if self.other is not None:
            if seeds:
                self.other.begin(seeds)
            self.other.observe()

    def _recruit(self) -> None:
        """Teams of the battles that restart."""
        self._begun |= self._restart
        if self.roster is not None:
            teams.recruit(self.roster, self.scene, self.world, self._restart, self._seed)

    def unit_names(self, e: int) -> tuple[str, ...]:
        """Names of the types of agents, then of enemies, as battle e has them."""
        if self.roster is None:
            return self.map_data.ally_types + self.map_data.enemy_types
        return tuple(self.map_data.drawn_from[k] for k in self.world.kind[e])

    def unit_types(self, e: int) -> tuple[UnitType, ...]:
        """Agents, then enemies, as battle e has them."""
        return self.map_data.find_types(self.unit_names(e))

    def max_reward(self, e: int) -> float:
        """Unscaled reward of a win in battle e in which every enemy dies once."""
        return max_reward_against(self.unit_types(e)[self.map_data.n_agents :], self.options)

    def table(self, name: str, e: int) -> np.ndarray:
        """The table of this name in ``scene`` for battle e."""
        table: np.ndarray = getattr(self.scene, name)[e * self.scene.per_battle]
        return table

    @property
    def begun(self) -> np.ndarray:
        """bool [E]: not before the first reset, unless units were placed."""
        alive = (self.world.unit[:, U.HEALTH] > 0).any(1)
        return np.asarray(self._begun | alive | self.ended)

    def _require_begun(self, envs: Iterable[int]) -> None:
        if not self._begun.all():
            self._begun = self.begun
            if waiting := [e for e in envs if not self._begun[e]]:
                raise RuntimeError(
                    f"battle {waiting[0]} was never reset: call reset({{{waiting[0]}: seed}}) first"
                )

    def _check_battles(self, envs: Iterable[object]) -> None:
        for e in envs:
            if not self._known.holds(e):
                raise ValueError(f"battle {e!r}: expected {self._known.expected}")

    def _take_seeds(self, seeds: Mapping[int, int]) -> None:
        """The battles that restart, and their seeds."""
        self._check_battles(seeds)
        self._restart[:] = False
        for e, seed in seeds.items():
            if not SEED.holds(seed):
                raise ValueError(f"seed={seed!r} of battle {e}: expected {SEED.expected}")
            self._restart[e], self._seed[e] = True, seed

    def _check(
        self, action: np.ndarray, *, any_action: bool, side: EnemySide | None = None
    ) -> None:
        avail = self.avail if side is None else side.avail
        wrong = env_step.find_illegal(self.world, avail, action, self._restart, any_action)
        if wrong < 0:
            return
        e, agent = divmod(wrong, avail.shape[1])
        legal = np.flatnonzero(avail[e, agent]).tolist()
        if any_action:
            legal = list(range(self.sizes.n_actions))
        raise IllegalAction.of(e, agent, int(action[e, agent]), legal)

    @property
    def ended(self) -> np.ndarray:
        """bool [E]."""
        return self.world.outcome != Outcome.RUNNING

    @property
    def timeout(self) -> np.ndarray:
        """bool [E]: ended by the time limit only."""
        return self.world.outcome == Outcome.TIMEOUT

    def results(self, envs: Sequence[int]) -> list[dict[str, Any]]:
        """How these battles stand: won, dead allies and enemies, timed out; of two sides also
        whether neither won. Raises ValueError for a battle that there is not, RuntimeError for one
        that was never reset."""
        self._check_battles(envs)
        self._require_begun(envs)
        dead = self.world.unit[envs, U.HEALTH] <= 0
        agents, outcome = self.map_data.n_agents, self.world.outcome[envs]
        columns = {
            "win": outcome == Outcome.WIN,
            "dead_allies": np.count_nonzero(dead[:, :agents], axis=1),
            "dead_enemies": np.count_nonzero(dead[:, agents:], axis=1),
            "timeout": outcome == Outcome.TIMEOUT,
        }
        if self.other is not None:
            columns["draw"] = (outcome == Outcome.DRAW) | (outcome == Outcome.TIMEOUT)
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def refresh(self) -> None:
        """Write all observations, masks and states again from ``world``."""
        env_step.write_frames(self.scene, self.shown, self.world, self.frame)
        if self.other is not None:
            self.other.observe(again=True)

    def state_dict(self) -> dict[str, Any]:
        """Copies of all arrays of ``World``, and of the other side's."""
        other = {} if self.other is None else {"other": self.other.state_dict()}
        return {**other, **{name: array.copy() for name, array in self.world._asdict().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken. Raises ValueError for a state that no
        such battles have."""
        n_kinds = 1 if self.roster is None else len(self.roster.order)
        sizes = {"n_actions": self.sizes.n_actions, "n_steps": self.scene.limit}
        place = AROUND if self.scene.smaclite else ON_MAP
        load_world(self.world, state, n_kinds=n_kinds, place=place, **sizes)
        if self.roster is not None:
            teams.fit_all(self.roster, self.scene, self.world)
        if self.other is not None:
            self.other.load_state_dict(state["other"])
        self.refresh()
