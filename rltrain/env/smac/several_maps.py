"""``SeveralMaps``: parallel battles on several maps, in the layout of the largest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rltrain.battles.data.map_data import MapData
from rltrain.battles.engine.battles import IllegalAction
from rltrain.battles.engine.world import Outcome
from rltrain.battles.native import NativeBattles
from rltrain.battles.options import Options, block_layout, columns, largest
from rltrain.common.number_types import Positive, saved_array
from rltrain.common.seeding import generator, weighted_index
from rltrain.env.smac.backend import BackendOptions, make_spec
from rltrain.interfaces import DecisionFunction
from rltrain.types import Info, StateDict

if TYPE_CHECKING:
    from rltrain.battles.render.drawing import BattleDrawing

LEAST_WEIGHT = 0.1  # by_difficulty: weight of a map with only wins
MEMORY = 20  # by_difficulty: battles in a map's running win rate


@dataclass(frozen=True, kw_only=True)
class SeveralOptions:
    """The maps of a run, and their sampling weights in training."""

    maps: list[str] | None = None
    map_weights: list[Positive] | Literal["by_difficulty"] | None = None  # None: equal


class SeveralMaps:
    """E battles, each on one of several maps, with the methods of ``NativeBattles``.

    Agents, enemies and actions that a map does not have are absent: their rows are zero, and an
    absent agent has only action 0. All maps show the same unit features, so rows have the same size
    on every map. ``choose`` draws an episode's map from its seed; with ``by_difficulty``, a map's
    weight is ``LEAST_WEIGHT`` plus its fraction of battles not won.
    """

    exact = True

    def __init__(
        self,
        chosen: SeveralOptions,
        play: BackendOptions,
        find: Callable[[str], MapData],
        options: Options,
        native: Callable[..., NativeBattles],
        *,
        n_envs: int,
        two_sided: bool,
    ) -> None:
        names, weights = chosen.maps or [], chosen.map_weights
        if isinstance(weights, list) and len(weights) != len(names):
            raise ValueError(
                f"env.map_weights={weights}: expected {len(names)} numbers, one for each of "
                f"env.maps={names}, or by_difficulty, or null."
            )
        if play.backend == "sc2" or two_sided:
            key = "env.backend=sc2" if play.backend == "sc2" else "an opponent"
            raise ValueError(
                f"env.maps={names} needs the built-in engine and its own enemies, and {key} was "
                "chosen: type env.backend=native and no opponent, or env.maps=null."
            )
        try:
            rows = [replace(find(name), for_any=True) for name in names]
        except ValueError as error:
            raise ValueError(f"env.maps={names}: {error}") from error
        self.names = [row.name for row in rows]
        if not names or len(set(self.names)) < len(names):
            raise ValueError(f"env.maps={names}: expected at least one map, without duplicates.")
        whole = largest(rows)
        self.spec, layout = make_spec(whole, options), block_layout(whole, options)
        self.n_envs = n_envs
        self.parts = [native(map_data=row, n_envs=n_envs, n_threads=play.n_threads) for row in rows]
        self._places = [
            tuple(
                np.array(columns(block_layout(row, options), layout, kind))
                for kind in ("obs", "state")
            )
            for row in rows
        ]
        self.save_replay, self.close = self.parts[0].save_replay, self.parts[0].close
        about = [part.about for part in self.parts]
        self.about = {k: ", ".join(sorted({each[k] for each in about})) for k in about[0]}
        self.by_difficulty = weights == "by_difficulty"
        fixed = weights if isinstance(weights, list) else [1.0] * len(names)
        self._weights = np.array(fixed, np.float64)
        self.wins = np.zeros(len(names))  # running win rates
        self.which = np.full(n_envs, -1, np.int64)  # the map of each battle, -1 before the first
        N, A = self.spec.n_agents, self.spec.n_actions
        self.obs = np.zeros((n_envs, N, *self.spec.obs_shape), np.float32)
        self.avail = np.zeros((n_envs, N, A), np.uint8)
        self.state = np.zeros((n_envs, self.spec.state_dim), np.float32)
        self.reward, self.lost = np.zeros(n_envs), np.zeros(n_envs, np.bool_)
        for part in self.parts:
            part.world.outcome[:] = Outcome.TIMEOUT  # no battle there

    def choose(self, e: int, seed: int, number: int | None) -> None:
        """Choose the map of environment e's next episode; test episodes, which have a number, take
        all maps in turn."""
        m = int(self.which[e])
        if m >= 0 and (outcome := self.parts[m].world.outcome[e]) != Outcome.RUNNING:
            self.wins[m] += (float(outcome == Outcome.WIN) - self.wins[m]) / MEMORY
        weights = 1 + LEAST_WEIGHT - self.wins if self.by_difficulty else self._weights
        drawn = weighted_index(weights, generator(seed))
        self.which[e] = drawn if number is None else number % len(self.parts)
        for part in self.parts:
            part.world.outcome[e] = Outcome.TIMEOUT

    def _playing(self) -> Iterator[tuple[int, NativeBattles, np.ndarray]]:
        """Yield the maps with current battles, and their environments."""
        for m, part in enumerate(self.parts):
            if len(envs := np.flatnonzero(self.which == m)):
                yield m, part, envs

    def start(self, seeds: Mapping[int, int]) -> None:
        """Begin the first episodes on the chosen maps."""
        for m, part in enumerate(self.parts):
            part.start({e: seed for e, seed in seeds.items() if self.which[e] == m})
        self._show(list(seeds))

    def step(
        self,
        action: np.ndarray,
        restarts: Mapping[int, int] | None = None,
        other_action: np.ndarray | None = None,
    ) -> None:
        """One env step; environments in ``restarts`` begin on the chosen maps."""
        seeds = restarts or {}
        for m, part, envs in self._playing():
            absent = action[envs, part.map_data.n_agents :]
            if absent.any():
                k, i = np.argwhere(absent)[0]
                agent = part.map_data.n_agents + int(i)
                if int(envs[k]) not in seeds:
                    raise IllegalAction.of(int(envs[k]), agent, int(absent[k, i]), [0])
            mine = {e: seed for e, seed in seeds.items() if self.which[e] == m}
            part.step(action[:, : part.map_data.n_agents], mine)
        self._show(list(seeds))

    def _show(self, begun: Sequence[int]) -> None:
        """Copy the observations of all battles into the common layout."""
        self.obs[begun], self.state[begun], self.avail[begun] = 0, 0, 0
        self.avail[begun, :, 0] = 1
        for m, part, envs in self._playing():
            of_obs, of_state = self._places[m]
            n, k = part.avail.shape[1:]
            rows = envs[:, None]
            self.obs[rows[..., None], np.arange(n)[:, None], of_obs] = part.obs[envs]
            self.state[rows, of_state] = part.state[envs]
            self.avail[envs, :n, :k] = part.avail[envs]
            self.reward[envs] = part.reward[envs]

    def _each(self, name: str) -> np.ndarray:
        """An array [E] gathered from the current maps."""
        arrays = np.stack([getattr(part, name) for part in self.parts])
        return arrays[self.which, np.arange(self.n_envs)]

    @property
    def ended(self) -> np.ndarray:
        """bool [E]."""
        return self._each("ended")

    @property
    def timeout(self) -> np.ndarray:
        """bool [E]: ended by the time limit only."""
        return self._each("timeout")

    def results(self, envs: Sequence[int]) -> list[Info]:
        """Results of these battles so far, with map names."""
        which = [(e, int(self.which[e])) for e in envs]
        return [{**self.parts[m].results([e])[0], "map": self.names[m]} for e, m in which]

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of ``BattleView`` on every battle."""
        found = [part.call(method, *args) for part in self.parts]
        return [found[m][e] for e, m in enumerate(self.which)]

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images [H, W, 3] of these battles since they were last rendered."""
        return [self.parts[self.which[e]].render([e])[0] for e in envs]

    def drawing(self, e: int) -> BattleDrawing:
        """Units, orders and visibility as numbers; absent agents come after the others, so that
        agents and enemies have the numbers of the largest map."""
        part = self.parts[self.which[e]]
        world, looks, columns = part.drawing(e)
        n, n_units, absent = part.map_data.n_agents, len(looks), self.spec.n_agents
        order = np.r_[:n, np.zeros(absent - n, np.int64), n:n_units]
        columns = {name: values[..., order] for name, values in columns.items()}
        columns["target"] = np.where(columns["target"] >= n, absent - n, 0) + columns["target"]
        columns["sees"] = np.pad(columns["sees"], ((0, absent - n), (0, 0)))
        columns["there"] = np.r_[np.ones(n), np.zeros(absent - n), np.ones(n_units - n)] > 0
        return world, [looks[i] for i in order], columns

    def scripted(self, name: str) -> DecisionFunction:
        """The decision function of a scripted policy on every map. Raises ValueError."""
        return SeveralDecisions(self, name)

    def state_dict(self) -> StateDict:
        """Copies of all arrays of the battles on every map."""
        parts = {name: p.state_dict() for name, p in zip(self.names, self.parts, strict=True)}
        return {"which": self.which.copy(), "wins": self.wins.copy(), "parts": parts}

    def resume(self, state: StateDict, seeds: Mapping[int, int]) -> None:
        """Continue exactly where ``state_dict`` was taken."""
        last = len(self.names) - 1
        self.which[:] = saved_array("env.which", state["which"], self.which, 0, last)
        self.wins[:] = saved_array("env.wins", state["wins"], self.wins, 0, 1)
        for name, part in zip(self.names, self.parts, strict=True):
            part.resume(state["parts"][name], seeds)
        self._show(range(self.n_envs))


class SeveralDecisions(DecisionFunction):
    """A scripted policy's decisions on several maps."""

    def __init__(self, battles: SeveralMaps, name: str) -> None:
        self._battles = battles
        self._parts = [part.scripted(name) for part in battles.parts]

    def __call__(self) -> np.ndarray:
        """Available actions [E, N] int64; 0 for absent agents."""
        action = np.zeros(self._battles.obs.shape[:2], np.int64)
        for m, part, envs in self._battles._playing():
            action[envs, : part.map_data.n_agents] = self._parts[m]()[envs]
        return action

    def state_dict(self) -> StateDict:
        return {str(m): part.state_dict() for m, part in enumerate(self._parts)}

    def load_state_dict(self, state: StateDict) -> None:
        for m, part in enumerate(self._parts):
            part.load_state_dict(state[str(m)])
