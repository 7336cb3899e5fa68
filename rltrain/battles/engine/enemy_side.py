"""``EnemySide``: the enemies' side of battles, with the interface of the agents'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rltrain.battles.data.map_data import SIZE, MapData
from rltrain.battles.engine import reflection, teams
from rltrain.battles.engine.episode import number_enemies
from rltrain.battles.engine.field_of_view import forget_all
from rltrain.battles.engine.kernel import seed_stream
from rltrain.battles.engine.saved_state import checked_array, load_world, require_each
from rltrain.battles.engine.tables import build_view
from rltrain.battles.engine.teams import Roster
from rltrain.battles.engine.world import Scene, U, View, World, build_frame, build_world
from rltrain.battles.options import Options, compute_sizes

STREAM = np.uint64(0x07E125EED)  # sets what this side draws apart from the battle's own stream


def exchanged(row: MapData) -> MapData:
    """A map as its enemies see it: they are the agents. What are enemies then is numbered as the
    map numbers enemies, where they are of the same types."""
    order = dict.fromkeys((*row.enemy_types, *row.ally_types))
    return replace(
        row,
        allies=row.enemies,
        enemies=row.allies,
        enemy_order=() if row.drawn_from else tuple(order),
    )


def equal_teams(row: MapData) -> bool:
    """Whether both teams of a map have the same units, so that a policy of one fits the other."""
    return sorted(row.ally_types) == sorted(row.enemy_types)


class EnemySide:
    """The enemies' side of E battles, as agents see theirs: observations, available actions and
    state of a map that is turned by 180 degrees, with units numbered by type and position.

    Where ``world.commanded`` of the battles is set, they carry out its actions; elsewhere the
    engine commands the enemies, and only no-op is available here.
    """

    def __init__(
        self,
        row: MapData,
        options: Options,
        battle: tuple[Scene, View, World],
        roster: Roster | None,
    ) -> None:
        scene, shown, self._battles = battle
        n_envs = len(self._battles.clock)
        self.map_data = exchanged(row)
        n_agents = self.map_data.n_agents
        self.sizes = compute_sizes(self.map_data, options)
        self.roster = None if roster is None else roster._replace(n_agents=n_agents)
        self._order = np.tile(self._numbers(row), (n_envs, 1))  # [E, units] of the battles
        self._place = np.argsort(self._order, 1)  # the inverse
        places = self._order[0]
        bits = [self.map_data.type_bits] * len(scene.type_bit)
        self.scene = scene._replace(
            n_agents=n_agents,
            param=np.ascontiguousarray(scene.param[:, :, places]),
            damage=np.ascontiguousarray(scene.damage[:, places][:, :, places]),
            affects=np.ascontiguousarray(scene.affects[:, places][:, :, places]),
            type_bit=np.array(bits, np.int32),
            pathable=np.ascontiguousarray(scene.pathable[::-1, ::-1]),
            height=np.ascontiguousarray(scene.height[::-1, ::-1]),
        )
        view = build_view(self.map_data, options, int(shown.max_distance), int(shown.ready_in))
        self.shown = view
        self.world = build_world(self.scene, n_envs)
        self.frame = build_frame(self.scene, self.sizes, n_envs)
        self.obs, self.avail, self.state = self.frame.obs, self.frame.avail, self.frame.state

    @property
    def commanded(self) -> np.ndarray:
        """bool [E], to be set before an episode begins: this side's actions are carried out."""
        return self._battles.commanded.view(np.bool_)

    def begin(self, seeds: Mapping[int, int]) -> None:
        """Number the units of battles that were restarted (e to seed)."""
        unit, n_agents = self._battles.unit, self.scene.n_agents
        for e, seed in seeds.items():
            own = self._order[e, :n_agents]
            if self.roster is None:
                rank = self.scene.type_bit[0, :n_agents]
            else:
                own[:] = np.arange(len(self._order[e]))[-n_agents:]
                rank = self.roster.order[self._battles.kind[e, own]]
            own[:] = own[np.lexsort((-unit[e, U.Y, own], -unit[e, U.X, own], rank))]
            self.world.rng[e] = seed_stream(np.uint64(seed) ^ STREAM)
            number_enemies(self.world.enemies, n_agents, self.world.rng, e)
            self.world.last_action[e] = -1
            forget_all(self.world.facing[e], self.world.watcher[e], self.world.watches[e])
        self._fit()

    def command(self, action: np.ndarray, restart: np.ndarray) -> None:
        """Actions [E, M] to orders, except where battles restart, bool [E]."""
        reflection.command(
            self.scene, self.shown, self._battles, self.world, self.frame, self._order,
            action, restart,
        )  # fmt: skip

    def observe(self, *, again: bool = False) -> None:
        """Show the current step; ``again`` after the worlds were loaded or edited."""
        reflection.observe(
            self.scene, self.shown, self._battles, self.world, self.frame, self._order,
            self._place, again,
        )  # fmt: skip

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all arrays that the next step depends on."""
        arrays = {name: array.copy() for name, array in self.world._asdict().items()}
        return {**arrays, "order": self._order.copy()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue exactly where ``state_dict`` was taken; the battles were loaded before. Raises
        ValueError for a state that no such battles have."""
        order, n_agents = checked_array("order", state["order"], self._order), self.scene.n_agents
        units = order.shape[1]
        require_each("order", order[:, :n_agents], range(units - n_agents, units))
        require_each("order", order[:, n_agents:], range(units - n_agents))
        n_kinds = 1 if self.roster is None else len(self.roster.order)
        sizes = {"n_actions": self.sizes.n_actions, "n_steps": self.scene.limit}
        load_world(self.world, state, n_kinds=n_kinds, place=(0, SIZE), **sizes)
        self._order[:] = order
        self._fit()
        self.observe(again=True)

    def _fit(self) -> None:
        """Arrays derived from the numbers of units: their inverse, and tables of drawn teams."""
        self._place[:] = np.argsort(self._order, 1)
        if self.roster is not None:
            self.world.kind[:] = np.take_along_axis(self._battles.kind, self._order, 1)
            teams.fit_all(self.roster, self.scene, self.world)

    def _numbers(self, row: MapData) -> list[int]:
        """The unit of the battles that each unit is here: any of its type."""
        n, names = row.n_agents, row.ally_types + row.enemy_types
        numbers: list[int] = []
        for units, types in (
            (range(n, len(names)), self.map_data.ally_types),
            (range(n), self.map_data.enemy_types),
        ):
            left = {name: iter([i for i in units if names[i] == name]) for name in types}
            numbers += [next(left[name]) for name in types]
        return numbers
