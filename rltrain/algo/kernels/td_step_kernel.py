"""TD errors of independent values and their gradient in one compiled pass over a batch.

``TDLoss`` computes the same in some forty tensor operations; tests compare the two, and other
networks, mixers and devices use it. T, B, N, R and A as in ``types``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from rltrain.algo.kernels import feed_forward_kernel
from rltrain.algo.kernels.feed_forward_kernel import differentiate, evaluate, n_weights
from rltrain.algo.kernels.linear_kernel import padded
from rltrain.algo.kernels.matmul_kernel import COLUMNS, ROWS, F
from rltrain.common import numba_cache

njit = partial(
    numba_cache.njit, __file__, *feed_forward_kernel.SOURCES, fastmath={"contract", "nsz"}
)


class Arrays(NamedTuple):
    """The fields of a batch that the loss reads; steps after a window's end may hold anything."""

    obs: np.ndarray  # [T+1, B, N, O]
    avail_actions: np.ndarray  # [T+1, B, N, A]
    last: np.ndarray  # [T+1, B]
    action: np.ndarray  # [T, B, N]
    reward: np.ndarray  # [T, B, R]
    terminated: np.ndarray  # [T, B]
    mask: np.ndarray  # [T, B]
    weight: np.ndarray  # [B]


@njit()
def step(batch, mask_end, networks, options, eta, gradient, priority, sums):
    """Fill ``gradient``, that of the loss sum by the online weights; nothing outside an array is
    accessed. Networks are evaluated where something is learned, and where a bootstrap is taken.

    Args:
        batch: ``Arrays``.
        mask_end: ``mask`` is not set from this step on.
        networks: weights, target's weights, shapes and cut, as in ``feed_forward_kernel``.
        options: discount, double Q-learning, rewards summed, Huber's bound or -1.
        priority: zeros [B]; becomes eta times the largest and 1 - eta times the mean |error| of
            the steps of every window.
        sums: zeros [5]; become loss, count, |error|, q taken, target.

    Returns:
        whether the arrays fit each other and the networks, and every action used is an index of
        ``avail_actions``; otherwise the results mean nothing.
    """
    if not fits(batch, mask_end, networks) or len(priority) != batch.action.shape[1]:
        return False
    obs, avail = batch.obs, batch.avail_actions
    flat, target_flat, shapes, cut = networks
    _, n_windows, n_agents = batch.action.shape
    end = ends(batch.last)
    place, n_next = bootstraps(end, mask_end, options[2], batch.terminated, batch.mask)
    n_first, n_behind = mask_end * n_windows * n_agents, n_next * n_agents
    double = options[1]
    n_inputs = n_first + n_behind if double else n_first
    x = np.zeros((padded(n_inputs, ROWS), padded(obs.shape[3], COLUMNS)), F)
    x_next = np.zeros((padded(n_behind, ROWS), x.shape[1]), F)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents):
                if t < mask_end:
                    copy_row(obs[t, b, n], x[(t * n_windows + b) * n_agents + n])
                if place[t, b] >= 0:
                    row = place[t, b] * n_agents + n
                    copy_row(obs[t, b, n], x_next[row])
                    if double:
                        x[n_first + row] = x_next[row]
    values = evaluate(x, flat, shapes, cut)
    q, target_q = values[3], evaluate(x_next, target_flat, shapes, cut)[3]
    of_q = np.zeros((padded(n_first, ROWS), padded(avail.shape[3], COLUMNS)), F)
    bootstrap = np.zeros(n_behind, F)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents if place[t, b] >= 0 else 0):
                row = place[t, b] * n_agents + n
                chooser_q = q[n_first + row] if double else target_q[row]
                bootstrap[row] = target_q[row, best_action(chooser_q, avail[t, b, n])]
    in_range = errors(batch, q, bootstrap, place, end, mask_end, options, eta, of_q, priority, sums)
    differentiate(values, of_q, flat, shapes, cut, gradient)
    return in_range


@njit()
def fits(batch, mask_end, networks):
    """Whether batch and networks have the sizes that ``step`` relies on."""
    flat, target_flat, shapes, cut = networks
    n_trunk, n_stream = cut
    n_in, channels, height, width = shapes[0, 0], shapes[0, 2], shapes[0, 3], shapes[0, 4]
    n_inputs = channels * height * width if channels else n_in
    n_outputs = shapes[n_trunk + n_stream - 1, 1]
    n_steps, n_windows, n_agents = batch.action.shape
    obs, avail, reward = batch.obs.shape, batch.avail_actions.shape, batch.reward.shape
    weights = len(flat) == len(target_flat) == n_weights(shapes)
    values = obs[3] == n_inputs and avail[3] == n_outputs
    rows = obs[:3] == avail[:3] == (n_steps + 1, n_windows, n_agents)
    rewards = reward[2] == 1 or reward[2] == n_agents
    pairs = reward[:2] == batch.terminated.shape == batch.mask.shape == (n_steps, n_windows)
    windows = batch.last.shape == (n_steps + 1, n_windows) and len(batch.weight) == n_windows
    bounds = 0 <= mask_end <= n_steps and n_steps > 0
    return weights and values and rows and rewards and pairs and windows and bounds


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
def bootstraps(end, mask_end, n_step, terminated, mask):
    """Number of each bootstrapped step [T+1, B], -1 where nothing bootstraps; and how many."""
    n_steps, n_windows = mask.shape
    place, n = np.full((n_steps + 1, n_windows), -1), 0
    for b in range(n_windows):
        for t in range(min(mask_end, end[b])):
            at = min(t + n_step, end[b])
            if mask[t, b] and not terminated[at - 1, b] and place[at, b] < 0:
                place[at, b] = n
                n += 1
    return place, n


@njit()
def copy_row(row, to):
    """Write ``row`` to the beginning of ``to``."""
    for i in range(len(row)):
        to[i] = row[i]


@njit()
def errors(batch, q, bootstrap, place, end, mask_end, options, eta, of_q, priority, sums):
    """Fill ``of_q``, the gradient of the weighted loss sum by q, ``priority`` and ``sums``; returns
    whether all actions are in range, at the first one that is not.
    """
    gamma, _, n_step, bound = options
    action, reward, terminated = batch.action, batch.reward, batch.terminated
    mask, weight, n_actions = batch.mask, batch.weight, batch.avail_actions.shape[3]
    _, n_windows, n_agents = action.shape
    team = reward.shape[2] == 1
    sizes = np.zeros(mask_end, F)
    for b in range(n_windows):
        count = 0
        sizes[:] = 0
        for n in range(n_agents):
            for t in range(min(mask_end, end[b])):
                if not mask[t, b]:
                    continue
                until = min(t + n_step, end[b]) - 1  # the last transition summed
                next_row = place[until + 1, b] * n_agents + n
                target = F(0) if terminated[until, b] else bootstrap[next_row]
                for s in range(until, t - 1, -1):
                    discount = F(0) if terminated[s, b] else gamma
                    target = reward[s, b, 0 if team else n] + discount * target
                row, taken = (t * n_windows + b) * n_agents + n, action[t, b, n]
                if not 0 <= taken < n_actions:
                    return False
                error = q[row, taken] - target
                size = abs(error)
                if bound < 0:
                    loss, slope = error * error, F(2) * error
                elif size > bound:
                    loss, slope = bound * (size - F(0.5) * bound), np.copysign(bound, error)
                else:  # NaN too
                    loss, slope = F(0.5) * error * error, error
                of_q[row, taken] = weight[b] * slope
                priority[b] += size
                sizes[t] += size
                count += 1
                sums[0] += weight[b] * loss
                sums[2] += size
                sums[3] += q[row, taken]
                sums[4] += target
        sums[1] += count
        priority[b] /= max(count, 1)
        largest = F(0)
        for t in range(mask_end):
            largest = max(largest, sizes[t] / n_agents)
        priority[b] += eta * (largest - priority[b])
    return True


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
