"""``NativeBattles``: the built-in engine as a backend of ``SmacVectorEnv``, with SMAC's methods,
scripted policies and rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rltrain.battles.battle_view import BattleView
from rltrain.battles.data.map_data import MapData
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import P
from rltrain.battles.options import StartOptions
from rltrain.battles.scripted.policies import BattleDecisions, find_policy, heuristic_orders
from rltrain.battles.smaclite.maps import find_battle

if TYPE_CHECKING:
    from rltrain.battles.render.drawing import BattleDrawing
    from rltrain.battles.render.painter import Painter


RULES_VERSION, LATER_RULES_VERSION = "6", "7"
"""Versions of ``rules=sc2``; increased when a changed rule or start position changes win rates.
The later one is that of SMACv2 and of agents with healers, which it changed alone.
"""
FIXED = StartOptions()


class NativeBattles(Battles):
    """E battles of the built-in engine, with the methods that ``SmacVectorEnv`` calls.

    With ``heuristic_ai`` SMAC's heuristic policy gives the orders in place of the actions;
    ``battles`` are keywords of ``Battles``.
    """

    exact = True  # state_dict includes running battles

    def __init__(
        self,
        *,
        map_name: str = "",
        map_data: MapData | None = None,
        n_envs: int,
        rules: str = "sc2",
        begin: StartOptions = FIXED,
        heuristic_ai: bool = False,
        heuristic_rest: bool = False,
        **battles: Any,
    ) -> None:
        row = map_data or find_battle(rules, map_name)
        recorded = begin.recorded(row, rules)
        starts = recorded.starts if recorded else ()
        super().__init__(
            map_data=row, n_envs=n_envs, rules=rules, jitter=begin.jitter, starts=starts, **battles
        )
        about = {"backend": "native"}
        if rules == "sc2":
            healers = (self.scene.param[:, P.ENERGY, : self.map_data.n_agents] > 0).any()
            later = self.map_data.chases or healers
            about["rules_version"] = LATER_RULES_VERSION if later else RULES_VERSION
        else:
            about["rules"] = rules
        if recorded:
            about["start_positions"] = recorded.file
        self.about: Mapping[str, str] = about
        self.lost = np.zeros(n_envs, np.bool_)  # the engine loses no episode
        orders = partial(heuristic_orders, rest=heuristic_rest)
        self._heuristic = BattleDecisions(self, orders) if heuristic_ai else None
        self.orders = self._heuristic
        self._painters: dict[int, Painter] = {}

    def start(self, seeds: Mapping[int, int]) -> None:
        """Begin the first episodes; with ``fixed_max_reward`` their teams scale the rewards."""
        if self.roster is not None:
            self.world.factor[:] = 0.0
        self.reset(seeds)

    def reset(self, seeds: Mapping[int, int]) -> None:
        """As in ``Battles``; images start again, too."""
        super().reset(seeds)
        for e in seeds:
            if self._painters.pop(e, None):
                self.painter(e)

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of ``BattleView`` on every battle."""
        return [getattr(BattleView(self, e), method)(*args) for e in range(self.n_envs)]

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images [H, W, 3] of these battles since they were rendered last."""
        return [self.painter(e).frames() for e in envs]

    def painter(self, e: int) -> Painter:
        """The painter of battle e."""
        from rltrain.battles.render.painter import Painter

        if e not in self._painters:
            self._painters[e] = Painter(self, e)
        return self._painters[e]

    def drawing(self, e: int) -> BattleDrawing:
        """Units, orders and what each agent sees, as numbers."""
        from rltrain.battles.render.drawing import battle_drawing

        return battle_drawing(self, e)

    def save_replay(self, e: int, folder: str, prefix: str) -> list[str]:
        """Only StarCraft II writes them."""
        raise RuntimeError(
            "save_replay: .SC2Replay files are written by StarCraft II, with env.backend=sc2 only"
        )

    def scripted(self, name: str) -> BattleDecisions:
        """The decision function of this name, one of ``scripted.policies.DECISIONS``. Raises
        ValueError for an unknown one."""
        return BattleDecisions(self, find_policy(name))

    def state_dict(self) -> dict[str, Any]:
        """Copies of all arrays of the battles and of the heuristic policy."""
        targets = {} if self._heuristic is None else {"targets": self._heuristic.memory.copy()}
        return {**targets, **super().state_dict()}

    def resume(self, state: Mapping[str, object], seeds: Mapping[int, int]) -> None:
        """Continue exactly where ``state_dict`` was taken."""
        self.load_state_dict(state)
        if self._heuristic is not None:
            self._heuristic.load_state_dict({"memory": state["targets"]})

    def close(self) -> None:
        """Do nothing: there is no process and no file to close."""
