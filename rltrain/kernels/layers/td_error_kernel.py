"""TD errors of one window in machine code: n-step returns or TD(λ), squared or Huber; and the
batches that the learning steps read.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic.tile_kernel import F

njit = numba_cache.arithmetic(__file__)


class BatchArrays(NamedTuple):
    """The fields of a batch that a loss reads; steps after a window's end may hold anything."""

    obs: np.ndarray  # [T+1, B, N, O]
    avail_actions: np.ndarray  # [T+1, B, N, A]
    state: np.ndarray  # [T+1, B, S]
    last_action: np.ndarray  # [T+1, B, N]
    last: np.ndarray  # [T+1, B]
    action: np.ndarray  # [T, B, N]
    reward: np.ndarray  # [T, B, R]
    terminated: np.ndarray  # [T, B]
    mask: np.ndarray  # [T, B], of the steps that are learned
    weight: np.ndarray  # [B]


class LossOptions(NamedTuple):
    """Settings of a loss, and ``eta`` of its batches."""

    gamma: np.float32
    double: bool  # the online network chooses the next action
    n_step: int
    trace: np.float32  # λ, or -1 for n-step returns
    bound: np.float32  # Huber's, or -1 for squared errors; kappa of quantiles
    eta: np.float32


@njit()
def consistent(batch):
    """Whether the fields have the same steps, windows and agents, one step or more."""
    n_steps, n_windows, n_agents = batch.action.shape
    obs, avail, reward = batch.obs.shape, batch.avail_actions.shape, batch.reward.shape
    last_action, whole = batch.last_action.shape, (n_steps + 1, n_windows)
    rows = obs[:3] == avail[:3] == last_action == (n_steps + 1, n_windows, n_agents)
    rewards = reward[2] == 1 or reward[2] == n_agents
    pairs = reward[:2] == batch.terminated.shape == batch.mask.shape == (n_steps, n_windows)
    windows = batch.last.shape == batch.state.shape[:2] == whole and len(batch.weight) == n_windows
    return rows and rewards and pairs and windows and n_steps > 0


@njit()
def ends(last):
    """[B]: the real transitions of every window, those before its first ``last``."""
    n_steps, n_windows = last.shape
    end = np.empty(n_windows, np.int64)
    for b in range(n_windows):
        end[b] = 0
        while end[b] < n_steps - 1 and not last[end[b], b]:
            end[b] += 1
    return end


@njit()
def errors(batch, b, length, mask_end, value, bootstrap, options, slope, priority, sums):
    """Fill ``slope`` [T, M], the gradient by ``value`` [T, M] of window b, ``priority`` and
    ``sums``.

    Args:
        length: real transitions of the window.
        mask_end: nothing is learned from this step on.
        bootstrap: [T, M], the values of the steps after.
    """
    reward, terminated, weight = batch.reward, batch.terminated, batch.weight[b]
    n_streams = value.shape[1]
    sizes, count = np.zeros(length, F), 0
    for m in range(n_streams):
        stream, following = m if reward.shape[2] > 1 else 0, F(0)
        for t in range(length - 1, -1, -1):
            discount = F(0) if terminated[t, b] else options.gamma
            if options.trace >= 0:
                after = bootstrap[t, m]
                if t < length - 1:
                    after += options.trace * (following - after)
                target = reward[t, b, stream] + discount * after
                following = target
            else:
                until = min(t + options.n_step, length) - 1
                target = bootstrap[until, m]
                for s in range(until, t - 1, -1):
                    discount = F(0) if terminated[s, b] else options.gamma
                    target = reward[s, b, stream] + discount * target
            slope[t, m] = F(0)
            if t >= mask_end or not batch.mask[t, b]:
                continue
            error = value[t, m] - target
            size, bound = abs(error), options.bound
            if bound < 0:
                loss, steep = error * error, F(2) * error
            elif size > bound:
                loss, steep = bound * (size - F(0.5) * bound), np.copysign(bound, error)
            else:  # NaN too
                loss, steep = F(0.5) * error * error, error
            slope[t, m] = weight * steep
            sizes[t] += size
            priority[b] += size
            count += 1
            sums[0] += weight * loss
            sums[2] += size
            sums[3] += value[t, m]
            sums[4] += target
    finish_window(sizes, n_streams, count, options.eta, b, priority, sums)


@njit()
def finish_window(sizes, n_streams, count, eta, b, priority, sums):
    """The priority of window ``b`` from the sum of its errors, and from their sizes by step."""
    sums[1] += count
    priority[b] /= max(count, 1)
    largest = F(0)
    for t in range(len(sizes)):
        largest = max(largest, sizes[t] / n_streams)
    priority[b] += eta * (largest - priority[b])


@njit()
def best_action(values, available):
    """The best available action, ties to the lowest; NaN is the largest, as for ``argmax``."""
    best, highest = 0, F(-np.inf)
    for a in range(len(available)):
        if available[a] and not values[a] <= highest:
            best, highest = a, values[a]
            if highest != highest:
                break
    return best
