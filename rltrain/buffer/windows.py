"""Windows of consecutive steps of a store: ``WindowStarts``, the steps at which their learned
transitions may begin; their rows and their small fields (compiled).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from rltrain.buffer import store as store_module
from rltrain.buffer.priorities import Priorities
from rltrain.buffer.store import BLOCK, Store, runs
from rltrain.common import numba_cache
from rltrain.common.number_types import require_range, saved_array
from rltrain.types import Clock, StateDict

njit = partial(numba_cache.njit, __file__, store_module.__file__)

FIELDS = ("last", "mask", "action", "last_action", "reward", "terminated")
SEEN = ("obs", "avail_actions", "state")
NO_FLOATS, NO_FLAGS = np.zeros((0, 0), np.float32), np.zeros((0, 0), np.bool_)
LARGE = 1 << 24
"""Bytes from which windows are copied by NumPy, whose memory is faster when there is much of it."""
Arrays = dict[str, np.ndarray]
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


def read_windows(
    store: Store,
    env: np.ndarray,
    start: np.ndarray,
    length: int,
    first_learned: np.ndarray,
    n_learned: int,
) -> tuple[Arrays, Arrays]:
    """Windows of ``length`` transitions that begin at step ``start`` [B] of environment ``env``
    [B]; everything after a window's final step is padding. The mask marks ``n_learned`` transitions
    of each, from ``first_learned`` [B] on.

    Returns:
        the fields of a batch, and the rows [T+1, B] or [T+1, B, n_frames] of those that are not
        stored in the format of batches, or large: arguments of ``Store.batch``.
    """
    at_once = (length + 1) * len(env) * store.bytes_per_step < LARGE and store.as_in_batches
    stored = tuple(store.arrays[name] for name in ("last", "action", "reward", "terminated"))
    seen: tuple[np.ndarray, ...] = (NO_FLOATS, NO_FLAGS, NO_FLOATS)
    if at_once:
        seen = tuple(store.arrays[name] for name in SEEN)
    places = store.table, store.begin, store.padding, env, start
    rows, found, shown = _windows(places, length, first_learned, n_learned, stored, seen)
    fields = dict(zip(FIELDS, found, strict=True))
    if at_once:
        shapes = (rows.shape + store.shapes[name] for name in SEEN)
        return fields | dict(zip(SEEN, map(np.reshape, shown, shapes), strict=True)), {}
    frames = rows
    if store.n_frames > 1:  # stacks within the episode and the store
        first = look_back(store, store.begin, env, start, store.n_frames - 1)
        frames = store.frame_rows(env, start, first, rows)
    return fields, {"obs": frames, "avail_actions": rows, "state": rows}


def look_back(
    store: Store, oldest: np.ndarray, env: np.ndarray, step: np.ndarray, n_steps: int
) -> np.ndarray:
    """The step up to ``n_steps`` before ``step`` [B] of environment ``env`` [B], within the same
    episode and not before ``oldest`` [E].
    """
    return _step_back(store.table, store.arrays["last"], oldest, env, step, n_steps)


@njit()
def _row(table, env, step):
    return table[env, step // BLOCK % table.shape[1]] * BLOCK + step % BLOCK


@njit()
def _windows(places, length, first_learned, n_learned, stored, seen):
    table, begin, padding, env, start = places
    last_of, action_of, reward_of, terminated_of = stored
    obs_of, avail_of, state_of = seen
    n_windows, n_agents = len(env), action_of.shape[1]
    rows = np.empty((length + 1, n_windows), np.int64)
    last, mask = np.empty(rows.shape, np.bool_), np.empty((length, n_windows), np.bool_)
    action = np.empty((length, n_windows, n_agents), np.int64)
    last_action = np.empty((length + 1, n_windows, n_agents), np.int64)
    reward = np.empty((length, n_windows, reward_of.shape[1]), np.float32)
    terminated = np.empty((length, n_windows), np.bool_)
    obs = np.empty((*rows.shape, obs_of.shape[1]), np.float32)
    avail = np.empty((*rows.shape, avail_of.shape[1]), np.bool_)
    state = np.empty((*rows.shape, state_of.shape[1]), np.float32)
    for b in range(n_windows):
        before = _row(table, env[b], max(start[b] - 1, begin[env[b]]))
        first = start[b] == begin[env[b]] or last_of[before, 0]
        for n in range(n_agents):
            last_action[0, b, n] = -1 if first else action_of[before, n]
        over = False
        for t in range(length + 1):
            row = padding if over else _row(table, env[b], start[b] + t)
            rows[t, b] = row
            for i in range(obs.shape[2]):
                obs[t, b, i] = obs_of[row, i]
            for i in range(avail.shape[2]):
                avail[t, b, i] = avail_of[row, i]
            for i in range(state.shape[2]):
                state[t, b, i] = state_of[row, i]
            final = last[t, b] = last_of[row, 0]
            here = not over and not final  # step t has a transition
            over = over or final
            if t == length:
                break
            mask[t, b] = here and first_learned[b] <= t < first_learned[b] + n_learned
            terminated[t, b] = terminated_of[row, 0]
            for n in range(n_agents):
                action[t, b, n] = action_of[row, n]
                last_action[t + 1, b, n] = action_of[row, n] if here else -1
            for r in range(reward.shape[2]):
                reward[t, b, r] = reward_of[row, r]
    return rows, (last, mask, action, last_action, reward, terminated), (obs, avail, state)


@njit()
def _step_back(table, last_of, oldest, env, step, n_steps):
    start = step.copy()
    for b in range(len(env)):
        while start[b] > max(step[b] - n_steps, oldest[env[b]]):
            if last_of[_row(table, env[b], start[b] - 1), 0]:
                break
            start[b] -= 1
    return start


@njit()
def take_starts(table, last_of, edges, stop, drawn, ring, starts, n_found):
    """Write the non-final steps with numbers ``drawn`` into ``starts`` [3, B]: environment, step,
    and the step's number in rings of ``ring`` steps. Returns the number of starts.

    Environment e has numbers from ``edges[e - 1]`` up to ``edges[e]``, for as many steps before
    ``stop[e]``.
    """
    for x in drawn:
        if n_found == starts.shape[1]:
            break
        e = np.searchsorted(edges, x, side="right")
        at = stop[e] + x - edges[e]
        if not last_of[_row(table, e, at), 0]:
            starts[0, n_found], starts[1, n_found] = e, at
            starts[2, n_found] = e * ring + at % ring
            n_found += 1
    return n_found
