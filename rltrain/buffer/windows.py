"""Windows of consecutive slots of a store: their rows and their small fields (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from rltrain.buffer import store as slots
from rltrain.buffer.store import BLOCK, Store
from rltrain.common import numba_cache

njit = partial(numba_cache.njit, __file__, slots.__file__)


class Windows(NamedTuple):
    """B windows of T transitions; behind a window's final slot everything is padding."""

    rows: np.ndarray  # [T+1, B] of the store
    last: np.ndarray  # [T+1, B] bool
    mask: np.ndarray  # [T, B] bool: a transition that the window teaches
    action: np.ndarray  # [T, B, N] int64
    last_action: np.ndarray  # [T+1, B, N] int64, -1 = none yet
    reward: np.ndarray  # [T, B, R] float32
    terminated: np.ndarray  # [T, B] bool


def windows(
    store: Store,
    lane: np.ndarray,
    start: np.ndarray,
    length: int,
    first_taught: np.ndarray,
    n_taught: int,
) -> Windows:
    """The windows of ``length`` transitions from slots ``start`` [B] of lanes ``lane`` [B] on;
    ``n_taught`` transitions of each are marked, from ``first_taught`` [B] on.
    """
    n, (n_agents,), (n_rewards,) = len(lane), store.shapes["action"], store.shapes["reward"]
    found = Windows(
        rows=np.empty((length + 1, n), np.int64),
        last=np.empty((length + 1, n), np.bool_),
        mask=np.empty((length, n), np.bool_),
        action=np.empty((length, n, n_agents), np.int64),
        last_action=np.empty((length + 1, n, n_agents), np.int64),
        reward=np.empty((length, n, n_rewards), np.float32),
        terminated=np.empty((length, n), np.bool_),
    )
    fields = tuple(store.arrays[name] for name in ("last", "action", "reward", "terminated"))
    places = store.table, store.begin, store.padding, lane, start
    _lay_out(*places, first_taught, n_taught, *fields, *found)
    return found


def warm_starts(
    store: Store, eldest: np.ndarray, lane: np.ndarray, number: np.ndarray, burn_in: int
) -> np.ndarray:
    """Up to ``burn_in`` slots before ``number`` [B], but none of another episode and none before
    ``eldest`` [E].
    """
    return _step_back(store.table, store.arrays["last"], eldest, lane, number, burn_in)


@njit()
def _row(table, lane, number):
    return table[lane, number // BLOCK % table.shape[1]] * BLOCK + number % BLOCK


@njit()
def _lay_out(
    table,
    begin,
    padding,
    lane,
    start,
    first_taught,
    n_taught,
    last_of,
    action_of,
    reward_of,
    terminated_of,
    rows,
    last,
    mask,
    action,
    last_action,
    reward,
    terminated,
):
    n_slots, n_windows, n_agents = action.shape
    for b in range(n_windows):
        before = _row(table, lane[b], max(start[b] - 1, begin[lane[b]]))
        first = start[b] == begin[lane[b]] or last_of[before, 0]
        for n in range(n_agents):
            last_action[0, b, n] = -1 if first else action_of[before, n]
        over = False
        for t in range(n_slots + 1):
            row = padding if over else _row(table, lane[b], start[b] + t)
            rows[t, b] = row
            final = last[t, b] = last_of[row, 0]
            here = not over and not final  # slot t holds a transition
            over = over or final
            if t == n_slots:
                break
            mask[t, b] = here and first_taught[b] <= t < first_taught[b] + n_taught
            terminated[t, b] = terminated_of[row, 0]
            for n in range(n_agents):
                action[t, b, n] = action_of[row, n]
                last_action[t + 1, b, n] = action_of[row, n] if here else -1
            for r in range(reward.shape[2]):
                reward[t, b, r] = reward_of[row, r]


@njit()
def _step_back(table, last_of, eldest, lane, number, burn_in):
    start = number.copy()
    for b in range(len(lane)):
        while start[b] > max(number[b] - burn_in, eldest[lane[b]]):
            if last_of[_row(table, lane[b], start[b] - 1), 0]:
                break
            start[b] -= 1
    return start


@njit()
def starts(table, last_of, edges, behind, drawn, lane, number, n_found):
    """Numbers ``drawn`` from 0 up to ``edges[-1]`` are starts: lane e has those below ``edges[e]``,
    counted backwards from its slot ``behind[e]``. Final slots are left out; returns how many are
    found now in ``lane`` and ``number`` [B].
    """
    for x in drawn:
        if n_found == len(lane):
            break
        e = np.searchsorted(edges, x, side="right")
        slot = behind[e] + x - edges[e]
        if not last_of[_row(table, e, slot), 0]:
            lane[n_found], number[n_found] = e, slot
            n_found += 1
    return n_found
