"""Windows of consecutive steps of a store: their rows and their small fields (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.buffer import store as store_module
from rltrain.buffer.store import BLOCK, Store
from rltrain.common import numba_cache

njit = partial(numba_cache.njit, __file__, store_module.__file__)

FIELDS = ("last", "mask", "action", "last_action", "reward", "terminated")
SEEN = ("obs", "avail_actions", "state")
NO_FLOATS, NO_FLAGS = np.zeros((0, 0), np.float32), np.zeros((0, 0), np.bool_)
LARGE = 1 << 24
"""Bytes from which windows are copied by NumPy, whose memory is faster when there is much of it."""
Arrays = dict[str, np.ndarray]


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
    first = start
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
