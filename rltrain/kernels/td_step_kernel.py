"""TD errors of independent values and their gradient in one compiled pass over a batch.

``TDLoss`` computes the same in some forty tensor operations; tests compare the two, and other
networks, mixers and devices use it. T, B, N, R and A as in ``types``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels import feed_forward_kernel
from rltrain.kernels.arithmetic.matmul_kernel import F
from rltrain.kernels.arithmetic.tile_kernel import padded
from rltrain.kernels.distribution_kernel import (
    CATEGORICAL,
    SCALAR,
    categorical_error,
    means,
    quantile_error,
)
from rltrain.kernels.feed_forward_kernel import (
    copy_row,
    differentiate,
    evaluate,
    n_weights,
)

SOURCES = (__file__, *feed_forward_kernel.SOURCES)
njit = partial(numba_cache.njit, *SOURCES, fastmath={"contract", "nsz"})


class Arrays(NamedTuple):
    """The fields of a batch that the loss reads; steps after a window's end may hold anything."""

    avail_actions: np.ndarray  # [T+1, B, N, A]
    last: np.ndarray  # [T+1, B]
    action: np.ndarray  # [T, B, N]
    reward: np.ndarray  # [T, B, R]
    terminated: np.ndarray  # [T, B]
    mask: np.ndarray  # [T, B]
    weight: np.ndarray  # [B]


class Options(NamedTuple):
    """What a loss computes."""

    gamma: np.float32
    double: bool  # the online network chooses the next action
    n_step: int
    kind: int  # of the outputs, as in ``distribution_kernel``
    bound: np.float32  # Huber's, below 0 none; kappa of quantiles
    points: np.ndarray  # [K], atoms or quantile levels; empty: values


@njit()
def step(batch, rows, mask_end, networks, options, eta, gradient, priority, sums):
    """Fill ``gradient``, that of the loss sum by the online weights; nothing outside an array is
    accessed. Networks are evaluated where something is learned, and where a bootstrap is taken.

    Args:
        batch: ``Arrays``.
        rows: [T+1, B, N, n_0], inputs of the networks; after a window's end anything.
        mask_end: ``mask`` is not set from this step on.
        networks: weights, those that choose next actions if ``double``, target's weights, shapes
            and cut, as in ``feed_forward_kernel``.
        options: ``Options``.
        priority: zeros [B]; becomes eta times the largest and 1 - eta times the mean size of the
            errors of the steps of every window.
        sums: zeros [6]; become loss, count, |error|, q taken, target, probability that was moved to
            an edge of the support.

    Returns:
        whether the arrays fit each other and the networks, and every action used is an index of
        ``avail_actions``; otherwise the results mean nothing.
    """
    n_points = max(len(options.points), 1)
    fitting = fits(batch, rows, mask_end, networks, n_points)
    if not fitting or len(priority) != batch.action.shape[1]:
        return False
    flat, chooser, target_flat, shapes, cut = networks
    _, n_windows, n_agents = batch.action.shape
    end = ends(batch.last)
    place, n_next = bootstraps(end, mask_end, options.n_step, batch.terminated, batch.mask)
    x = np.zeros((mask_end * n_windows * n_agents, rows.shape[3]), F)
    x_next = np.empty((n_next * n_agents, rows.shape[3]), F)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents):
                if t < mask_end:
                    copy_row(rows[t, b, n], x[(t * n_windows + b) * n_agents + n])
                if place[t, b] >= 0:
                    copy_row(rows[t, b, n], x_next[place[t, b] * n_agents + n])
    values = evaluate(x, flat, shapes, cut)
    ahead = evaluate(x_next, target_flat, shapes, cut)[3]
    choosing = evaluate(x_next, chooser, shapes, cut)[3] if options.double else ahead
    means_next = means(choosing, options.kind, options.points)
    best = choose_next(means_next, place, end, batch.avail_actions)
    of_q = np.zeros((len(values[3]), padded(len(x))), F)
    outputs = values[3], ahead, best
    places = place, end, mask_end
    if options.kind == SCALAR:
        in_range = errors(batch, outputs, places, options, eta, of_q, priority, sums)
    else:
        points = options.points.reshape((1, n_points))
        in_range = distances(batch, outputs, places, options, points, eta, of_q, priority, sums)
    differentiate(values, of_q, len(x), flat, shapes, cut, gradient)
    return in_range


@njit()
def fits(batch, inputs, mask_end, networks, n_points):
    """Whether batch and networks have the sizes that ``step`` relies on."""
    flat, chooser, target_flat, shapes, cut = networks
    n_trunk, n_stream = cut
    n_in, channels, height, width = shapes[0, 0], shapes[0, 2], shapes[0, 3], shapes[0, 4]
    n_inputs = channels * height * width if channels else n_in
    n_outputs = shapes[n_trunk + n_stream - 1, 1]
    n_steps, n_windows, n_agents = batch.action.shape
    obs, avail, reward = inputs.shape, batch.avail_actions.shape, batch.reward.shape
    weights = len(flat) == len(chooser) == len(target_flat) == n_weights(shapes)
    values = obs[3] == n_inputs and avail[3] * n_points == n_outputs
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
def errors(batch, outputs, places, options, eta, of_q, priority, sums):
    """Fill ``of_q``, the gradient of the weighted loss sum by q, ``priority`` and ``sums``; returns
    whether all actions are in range, at the first one that is not.
    """
    q, ahead, best = outputs
    place, end, mask_end = places
    gamma, n_step, bound = options.gamma, options.n_step, options.bound
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
                target = F(0) if terminated[until, b] else ahead[best[next_row], next_row]
                for s in range(until, t - 1, -1):
                    discount = F(0) if terminated[s, b] else gamma
                    target = reward[s, b, 0 if team else n] + discount * target
                row, taken = (t * n_windows + b) * n_agents + n, action[t, b, n]
                if not 0 <= taken < n_actions:
                    return False
                error = q[taken, row] - target
                size = abs(error)
                if bound < 0:
                    loss, slope = error * error, F(2) * error
                elif size > bound:
                    loss, slope = bound * (size - F(0.5) * bound), np.copysign(bound, error)
                else:  # NaN too
                    loss, slope = F(0.5) * error * error, error
                of_q[taken, row] = weight[b] * slope
                priority[b] += size
                sizes[t] += size
                count += 1
                sums[0] += weight[b] * loss
                sums[2] += size
                sums[3] += q[taken, row]
                sums[4] += target
        finish_window(sizes, n_agents, count, eta, b, priority, sums)
    return True


@njit()
def finish_window(sizes, n_agents, count, eta, b, priority, sums):
    """The priority of window ``b`` from the sum of its errors, and from their sizes by step."""
    sums[1] += count
    priority[b] /= max(count, 1)
    largest = F(0)
    for t in range(len(sizes)):
        largest = max(largest, sizes[t] / n_agents)
    priority[b] += eta * (largest - priority[b])


@njit()
def distances(batch, outputs, places, options, points, eta, of_q, priority, sums):
    """As ``errors``, of distributions; ``points`` [rows, K] of each row, or [1, K] of all."""
    q, ahead, best = outputs
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
                if options.kind == CATEGORICAL:
                    found = categorical_error(own, *target, slope, work)
                else:
                    found = quantile_error(own, *target, options.bound, slope, work)
                for k in range(n_points):
                    of_q[taken * n_points + k, row] = weight[b] * slope[k]
                loss, size = found[0], found[1]
                priority[b] += size
                sizes[t] += size
                count += 1
                sums[0] += weight[b] * loss
                sums[2] += found[2]
                sums[3] += found[3]
                sums[4] += found[4]
                sums[5] += found[5]
        finish_window(sizes, n_agents, count, eta, b, priority, sums)
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
