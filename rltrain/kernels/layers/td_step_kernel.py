"""The learning step of independent feed-forward agents in machine code: values, TD errors and
gradient in one pass over a batch, for every distribution of returns. Compiled for each kind of
arguments: values, distributions at fixed points, at drawn levels.

T, B, N, R and A as in ``types``; networks, and K quantile levels or 0, as in ``stack_kernel``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic.linear_kernel import copy_row
from rltrain.kernels.arithmetic.tile_kernel import F, padded
from rltrain.kernels.layers import stack_kernel, td_error_kernel
from rltrain.kernels.layers.distribution_kernel import (
    CATEGORICAL,
    categorical_error,
    means,
    quantile_error,
)
from rltrain.kernels.layers.stack_kernel import differentiate, evaluate, n_weights, outputs
from rltrain.kernels.layers.td_error_kernel import (
    best_action,
    consistent,
    ends,
    errors,
    finish_window,
)

njit = numba_cache.arithmetic(__file__, stack_kernel, td_error_kernel)


@njit()
def step(batch, levels, mask_end, networks, options, kind, points, gradient, priority, sums):
    """Fill ``gradient``, that of the loss sum by the online weights; nothing outside an array is
    accessed. Networks are evaluated where something is learned, and where a bootstrap is taken.

    Args:
        batch: ``BatchArrays``; ``obs`` are inputs of the networks.
        levels: those of the online network [mask_end · B · N, K], those of the target network for
            values [T · B · N, K'], and those that the next action is chosen by [T · B · N, K''],
            of the steps from 1 on; None in place of each without levels.
        mask_end: nothing is learned from this step on.
        networks: weights, those that choose next actions if ``double``, target's weights, shapes
            and cut.
        options: ``LossOptions``.
        kind, points: ``CATEGORICAL`` or ``QUANTILE``, and [K] atoms or quantile levels,
            empty for drawn levels; None for values.
        priority: zeros [B]; becomes eta times the largest and 1 - eta times the mean size of the
            errors of the steps of every window.
        sums: zeros [6]; become loss, count, |error|, q taken, target, probability that was moved to
            an edge of the support.

    Returns:
        whether the arrays fit each other and the networks, and every action used is an index of
        ``avail_actions``; otherwise the results mean nothing.
    """
    n_points = 1 if points is None else max(len(points), 1)
    if not fits(batch, levels, mask_end, networks, n_points, priority):
        return False
    flat, chooser, target_flat, shapes, cut = networks
    of_online, of_target, of_choice = levels
    rows, (_, n_windows, n_agents) = batch.obs, batch.action.shape
    end = ends(batch.last)
    place, n_next = bootstraps(end, mask_end, options.n_step, batch.terminated, batch.mask)
    x = np.zeros((mask_end * n_windows * n_agents, rows.shape[3]), F)
    # a row of zeros where nothing bootstraps: the number of outputs cannot be read from none
    x_next = np.zeros((max(n_next, 1) * n_agents, rows.shape[3]), F)
    before = np.zeros(len(x_next), np.int64)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents):
                row = (t * n_windows + b) * n_agents + n
                if t < mask_end:
                    copy_row(rows[t, b, n], x[row])
                if place[t, b] >= 0:
                    to = place[t, b] * n_agents + n
                    copy_row(rows[t, b, n], x_next[to])
                    before[to] = row - n_windows * n_agents
    tau_next, tau_choice = take_rows(of_target, before), take_rows(of_choice, before)
    values, q = evaluate(x, of_online, flat, shapes, cut)
    ahead = choosing = outputs(x_next, tau_next, target_flat, shapes, cut)
    if options.double or of_choice is not None:
        choosing = outputs(
            x_next, tau_choice, chooser if options.double else target_flat, shapes, cut
        )
    expected = means(choosing, tau_choice, kind, points)
    best = choose_next(expected, place, end, batch.avail_actions)
    of_q = np.zeros((len(q), padded(len(x))), F)
    results, places = (q, ahead, best), (place, end, mask_end)
    if points is None:
        in_range = scalar_errors(batch, results, places, options, of_q, priority, sums)
    else:
        own = points.reshape((1, len(points))) if of_online is None else of_online
        in_range = distances(batch, results, places, options, kind, own, of_q, priority, sums)
    differentiate(values, of_q, len(x), of_online, flat, shapes, cut, gradient)
    return in_range


@njit()
def take_rows(levels, rows):
    """``levels`` [R, K] of some rows; None if there are none."""
    if levels is None:
        return None
    out = np.empty((len(rows), levels.shape[1]), F)
    for i in range(len(rows)):
        copy_row(levels[rows[i]], out[i])
    return out


@njit()
def fits(batch, levels, mask_end, networks, n_points, priority):
    """Whether batch and networks have the sizes that ``step`` relies on."""
    flat, chooser, target_flat, shapes, cut = networks
    n_trunk, n_stream = cut
    n_in, channels, height, width = shapes[0, 0], shapes[0, 2], shapes[0, 3], shapes[0, 4]
    n_inputs = channels * height * width if channels else n_in
    n_outputs = shapes[n_trunk + n_stream - 1, 1]
    n_steps, n_windows, n_agents = batch.action.shape
    n_rows = n_windows * n_agents
    weights = len(flat) == len(chooser) == len(target_flat) == n_weights(shapes)
    values = batch.obs.shape[3] == n_inputs
    values = values and batch.avail_actions.shape[3] * n_points == n_outputs
    bounds = 0 <= mask_end <= n_steps and len(priority) == n_windows
    drawn = sized(levels[0], mask_end * n_rows)
    drawn = drawn and sized(levels[1], n_steps * n_rows) and sized(levels[2], n_steps * n_rows)
    return consistent(batch) and weights and values and bounds and drawn


@njit()
def sized(levels, n_rows):
    """Whether there are no levels, or those of ``n_rows``."""
    return levels is None or len(levels) == n_rows


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
def choose_next(values, place, end, avail_actions):
    """The best available actions of the bootstrapped rows by their ``values`` [A, rows]."""
    n_agents = avail_actions.shape[2]
    best = np.zeros(values.shape[1], np.int64)
    for b in range(len(end)):
        for t in range(end[b] + 1):
            for n in range(n_agents if place[t, b] >= 0 else 0):
                row = place[t, b] * n_agents + n
                best[row] = best_action(values[:, row], avail_actions[t, b, n])
    return best


@njit()
def scalar_errors(batch, results, places, options, of_q, priority, sums):
    """Fill ``of_q``, the gradient of the weighted loss sum by q, ``priority`` and ``sums``; returns
    whether all actions are in range, at the first window where one is not.
    """
    q, ahead, best = results
    place, end, mask_end = places
    action, n_actions = batch.action, batch.avail_actions.shape[3]
    n_steps, n_windows, n_agents = action.shape
    value, bootstrap = np.zeros((n_steps, n_agents), F), np.zeros((n_steps, n_agents), F)
    slope = np.empty((n_steps, n_agents), F)
    for b in range(n_windows):
        n_learned = min(mask_end, end[b])
        for t in range(end[b]):
            for n in range(n_agents):
                row, taken = (t * n_windows + b) * n_agents + n, action[t, b, n]
                if t < n_learned and batch.mask[t, b]:
                    if not 0 <= taken < n_actions:
                        return False
                    value[t, n] = q[taken, row]
                next_row = place[t + 1, b] * n_agents + n
                bootstrap[t, n] = ahead[best[next_row], next_row] if next_row >= 0 else F(0)
        errors(batch, b, end[b], n_learned, value, bootstrap, options, slope, priority, sums)
        for t in range(n_learned):
            for n in range(n_agents if batch.mask[t, b] else 0):
                of_q[action[t, b, n], (t * n_windows + b) * n_agents + n] = slope[t, n]
    return True


@njit()
def distances(batch, results, places, options, kind, points, of_q, priority, sums):
    """As ``scalar_errors``, of distributions; ``points`` [rows, K] of each row, or [1, K] of all;
    returns at the first action that is not in range.
    """
    q, ahead, best = results
    place, end, mask_end = places
    gamma, n_step = options.gamma, options.n_step
    action, reward, terminated = batch.action, batch.reward, batch.terminated
    mask, weight, n_actions = batch.mask, batch.weight, batch.avail_actions.shape[3]
    _, n_windows, n_agents = action.shape
    team, n_points, n_ahead = reward.shape[2] == 1, points.shape[1], len(ahead) // n_actions
    sizes, work = np.zeros(mask_end, F), np.empty((3, n_points), F)
    own, following, slope = np.empty(n_points, F), np.zeros(n_ahead, F), np.empty(n_points, F)
    for b in range(n_windows):
        count = 0
        sizes[:] = 0
        for n in range(n_agents):
            for t in range(min(mask_end, end[b])):
                if not mask[t, b]:
                    continue
                until = min(t + n_step, end[b]) - 1  # the last transition summed
                reward_sum, discount = F(0), F(1)
                for s in range(until, t - 1, -1):
                    of_step = F(0) if terminated[s, b] else gamma
                    reward_sum = reward[s, b, 0 if team else n] + of_step * reward_sum
                    discount *= of_step
                if terminated[until, b]:
                    following[:] = F(0)
                else:
                    next_row = place[until + 1, b] * n_agents + n
                    for k in range(n_ahead):
                        following[k] = ahead[best[next_row] * n_ahead + k, next_row]
                row, taken = (t * n_windows + b) * n_agents + n, action[t, b, n]
                if not 0 <= taken < n_actions:
                    return False
                for k in range(n_points):
                    own[k] = q[taken * n_points + k, row]
                own_points = points[row if len(points) > 1 else 0]
                target = following, reward_sum, discount, own_points
                if kind == CATEGORICAL:
                    error = categorical_error(own, *target, slope, work)
                else:
                    error = quantile_error(own, *target, options.bound, slope, work)
                for k in range(n_points):
                    of_q[taken * n_points + k, row] = weight[b] * slope[k]
                loss, size = error[0], error[1]
                priority[b] += size
                sizes[t] += size
                count += 1
                sums[0] += weight[b] * loss
                sums[2] += error[2]
                sums[3] += error[3]
                sums[4] += error[4]
                sums[5] += error[5]
        finish_window(sizes, n_agents, count, options.eta, b, priority, sums)
    return True
