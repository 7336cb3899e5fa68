"""Windows of consecutive steps of a store: their rows and their small fields (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from rltrain.buffer import store as store_module
from rltrain.buffer.store import BLOCK, Store
from rltrain.common import numba_cache

njit = partial(numba_cache.njit, __file__, store_module.__file__)


class Windows(NamedTuple):
    """B windows of T transitions; after a window's final step everything is padding."""

    rows: np.ndarray  # [T+1, B] of the store
    last: np.ndarray  # [T+1, B] bool
    mask: np.ndarray  # [T, B] bool: transitions that are learned from
    action: np.ndarray  # [T, B, N] int64
    last_action: np.ndarray  # [T+1, B, N] int64, -1 = none yet
    reward: np.ndarray  # [T, B, R] float32
    terminated: np.ndarray  # [T, B] bool


def windows(
    store: Store,
    env: np.ndarray,
    start: np.ndarray,
    length: int,
    first_learned: np.ndarray,
    n_learned: int,
) -> Windows:
    """Windows of ``length`` transitions that begin at step ``start`` [B] of environment ``env``
    [B]; the mask is set on ``n_learned`` transitions of each, from ``first_learned`` [B] on.
    """
    n, (n_agents,), (n_rewards,) = len(env), store.shapes["action"], store.shapes["reward"]
    found = Windows(
        rows=np.empty((length + 1, n), np.int64),
        last=np.empty((length + 1, n), np.bool_),
        mask=np.empty((length, n), np.bool_),
        action=np.empty((length, n, n_agents), np.int64),
        last_action=np.empty((length + 1, n, n_agents), np.int64),
        reward=np.empty((length, n, n_rewards), np.float32),
        terminated=np.empty((length, n), np.bool_),
    )
    stored = tuple(store.arrays[name] for name in ("last", "action", "reward", "terminated"))
    places = store.table, store.begin, store.padding, env, start
    _fill(places, first_learned, n_learned, stored, found)
    return found


def look_back(
    store: Store, oldest: np.ndarray, env: np.ndarray, step: np.ndarray, n_steps: int
) -> np.ndarray:
    """The step up to ``n_steps`` before ``step`` [B] of environment ``env`` [B], but of the same
    episode and not before ``oldest`` [E].
    """
    return _step_back(store.table, store.arrays["last"], oldest, env, step, n_steps)


@njit()
def _row(table, env, step):
    return table[env, step // BLOCK % table.shape[1]] * BLOCK + step % BLOCK


@njit()
def _fill(places, first_learned, n_learned, stored, windows):
    table, begin, padding, env, start = places
    last_of, action_of, reward_of, terminated_of = stored
    rows, last, mask, action, last_action, reward, terminated = windows
    length, n_windows, n_agents = action.shape
    for b in range(n_windows):
        before = _row(table, env[b], max(start[b] - 1, begin[env[b]]))
        first = start[b] == begin[env[b]] or last_of[before, 0]
        for n in range(n_agents):
            last_action[0, b, n] = -1 if first else action_of[before, n]
        over = False
        for t in range(length + 1):
            row = padding if over else _row(table, env[b], start[b] + t)
            rows[t, b] = row
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
def take_starts(table, last_of, edges, stop, drawn, env, step, n_found):
    """Write the steps that the numbers ``drawn`` stand for into ``env`` and ``step`` [B], without
    final steps, and return how many there are now.

    Environment e has the numbers from ``edges[e - 1]`` up to ``edges[e]``; they stand for as many
    steps before ``stop[e]``.
    """
    for x in drawn:
        if n_found == len(env):
            break
        e = np.searchsorted(edges, x, side="right")
        at = stop[e] + x - edges[e]
        if not last_of[_row(table, e, at), 0]:
            env[n_found], step[n_found] = e, at
            n_found += 1
    return n_found
