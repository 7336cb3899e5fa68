"""WindowStarts: the stored steps at which a window's learned transitions may begin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rltrain.buffer.priorities import Priorities
from rltrain.buffer.store import BLOCK, Store, runs
from rltrain.buffer.windows import take_starts
from rltrain.common.number_types import require_range, saved_array
from rltrain.types import Clock, StateDict

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray, np.ndarray | None]


class WindowStarts:
    """Non-final steps with ``length`` successors and the required predecessors; drawn uniformly or
    by priority.

    Each start has an item number for priorities: its step modulo ``ring``, per environment and, if
    windows show one agent each, per agent.

    Args:
        store: the steps.
        length: transitions of a window, T.
        looks_back: earlier steps required by a start, for its last action and stacked frames.
        steps_per_env: stored steps per environment.
        n_agents: windows per start, one per agent; 1 = the whole team.
        priorities: makes ``Priorities`` of a number of items; None = uniform.
        initial: the priorities [n_agents · B] of new starts, given environments and steps [B]; None
            = the largest so far.
    """

    def __init__(
        self,
        store: Store,
        *,
        length: int,
        looks_back: int,
        steps_per_env: int,
        n_agents: int,
        priorities: Callable[[int], Priorities] | None,
        initial: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.store, self.length, self.looks_back = store, length, looks_back
        self.ring, self.n_agents = steps_per_env + BLOCK, n_agents
        self.stop = np.zeros(store.n_envs, np.int64)  # [E] first step that is not yet a start
        self._edges: np.ndarray | None = None  # [E] cumulative number of starts
        self.n_items = 0 if priorities is None else store.n_envs * self.ring * n_agents
        self.priorities = None if priorities is None else priorities(self.n_items)
        self.initial = initial

    @property
    def oldest(self) -> np.ndarray:
        """[E]: the first step whose predecessors are still stored, or never existed."""
        begin = self.store.begin
        return np.where(begin > 0, begin + self.looks_back, 0)

    def any(self) -> bool:
        """Whether there is a start: of two consecutive steps at most one is final."""
        return bool((self.stop > self.oldest + 1).any())

    def grow(self, *, ended: bool = False) -> None:
        """Add steps that now have enough successors, or all steps if the stored episodes have
        ``ended``.
        """
        stop = np.maximum(self.store.end - (0 if ended else self.length), self.stop)
        if self.priorities is not None:
            first = np.maximum(self.stop, self.oldest)  # some were removed before they could start
            env, step = runs(first, np.maximum(stop - first, 0))
            last = self.store.arrays["last"][self.store.rows(env, step), 0]
            begins = np.tile(~last, self.n_agents)
            initial = None if self.initial is None or not len(env) else self.initial(env, step)
            self.priorities.add(self._items(env, step), begins, initial)
        self.stop, self._edges = stop, None

    def remove(self, first: np.ndarray, stop: np.ndarray) -> None:
        """Never draw steps ``first[e]`` … ``stop[e]`` of environment e again."""
        if self.priorities is not None:
            self.priorities.remove(self._items(*runs(first, np.maximum(stop - first, 0))))

    def draw(self, n: int, rng: np.random.Generator, clock: Clock) -> Drawn:
        """Environments, steps, agents, items and importance weights [B] of ``n`` starts; agents are
        None if windows show whole teams, weights if sampling is uniform.
        """
        if self.priorities is None:
            env, step, item = self._draw_uniform(n, rng)
            if self.n_agents == 1:
                return env, step, None, item, None
            agent = rng.integers(0, self.n_agents, n)
            return env, step, agent, item * self.n_agents + agent, None
        item, weight = self.priorities.draw(n, rng, clock.env_steps)
        start, agent = np.divmod(item, self.n_agents)
        env, at = np.divmod(start, self.ring)
        begin = self.store.begin[env]
        step = begin + (at - begin) % self.ring
        return env, step, agent if self.n_agents > 1 else None, item, weight

    def _draw_uniform(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """[3, n]: environments, steps, and the items of steps with one agent each."""
        if self._edges is None:
            self._edges = np.maximum(self.stop - self.oldest, 0).cumsum()
        edges, starts = self._edges, np.empty((3, n), np.int64)
        n_found, last, table = 0, self.store.arrays["last"], self.store.table
        while n_found < n:  # final steps are rejected
            drawn = rng.integers(0, edges[-1], n + n // 8 + 8)
            n_found = take_starts(table, last, edges, self.stop, drawn, self.ring, starts, n_found)
        return starts

    def _items(self, env: np.ndarray, step: np.ndarray) -> np.ndarray:
        """[n_agents · B]: items of steps [B] of environments [B], by agent."""
        first = (env * self.ring + step % self.ring) * self.n_agents
        return (first + np.arange(self.n_agents)[:, None]).reshape(-1)

    def state_dict(self) -> StateDict:
        every = np.arange(self.n_items)
        priorities = {} if self.priorities is None else self.priorities.state_dict(every)
        return {"stop": self.stop.copy(), **priorities}

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``; the store was loaded before.

        Raises:
            ValueError: starts that are not stored, or without a priority.
        """
        store = self.store
        stop = saved_array("the buffer's stop", state["stop"], self.stop, 0)
        require_range("the buffer's end - stop", store.end - stop, 0)
        env, step = runs(store.begin, store.end - store.begin)
        last = store.arrays["last"][store.rows(env, step), 0]
        self.stop[:], self._edges = stop, None
        starts = ~last & (step >= self.oldest[env]) & (step < stop[env])
        if self.any() and not starts.any():
            raise ValueError("the buffer's last has final steps alone")  # none would be drawn
        if self.priorities is not None:
            self.priorities.load_state_dict(np.arange(self.n_items), state)
            drawable = np.zeros(self.n_items, np.bool_)
            drawable[self._items(env[starts], step[starts])] = True
            if ((np.asarray(state["priority"]) > 0) != drawable).any():
                raise ValueError("the buffer's priority is not above 0 for its windows alone")
