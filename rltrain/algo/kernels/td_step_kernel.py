"""TD errors of independent values and their gradient in one compiled pass over a batch.

``TDLoss`` says the same in some forty tensor operations; it is the oracle, and what other networks,
mixers and devices use. T, B, N, R and A as in ``types``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.algo.kernels import feed_forward_kernel
from rltrain.algo.kernels.feed_forward_kernel import differentiate, evaluate, n_weights
from rltrain.algo.kernels.linear_kernel import padded
from rltrain.algo.kernels.matmul_kernel import COLUMNS, ROWS, F
from rltrain.common import numba_cache

njit = partial(
    numba_cache.njit, __file__, *feed_forward_kernel.SOURCES, fastmath={"contract", "nsz"}
)


@njit()
def step(
    obs,
    mask_end,
    flat,
    target_flat,
    shapes,
    cut,
    rule,
    avail,
    action,
    reward,
    terminated,
    last,
    mask,
    weight,
    eta,
    gradient,
    priority,
    sums,
):
    """Fill ``gradient``, that of the loss sum by ``flat``; nothing outside an array is accessed.

    Args:
        obs: [T+1, B, N, O]; what lies behind a window's end may be anything.
        mask_end: ``mask`` is not set from this slot on.
        flat, target_flat, shapes, cut: the networks, as ``stack_kernel`` takes them.
        rule: discount, whether the online values choose, rewards summed, Huber's bound or -1.
        priority: zeros [B]; becomes eta times the largest and 1 - eta times the mean |error| of
            the steps of every window.
        sums: zeros [5]; become loss, count, |error|, q taken, target.

    Returns:
        whether the arrays fit each other and the networks, and every action used is an index of
        ``avail``; otherwise the results mean nothing.

    Networks are evaluated where something is learned, and where a bootstrap is taken.
    """
    if not fits(obs, mask_end, flat, target_flat, shapes, cut, avail, action):
        return False
    if not fits_transitions(action, reward, terminated, last, mask, weight, priority):
        return False
    n_windows, n_agents, n_actions = action.shape[1], action.shape[2], avail.shape[3]
    end = ends(last)
    place, n_ahead = bootstraps(end, mask_end, rule[2], terminated, mask)
    n_first, n_behind = mask_end * n_windows * n_agents, n_ahead * n_agents
    double = rule[1]
    n_inputs = n_first + n_behind if double else n_first
    x = np.zeros((padded(n_inputs, ROWS), padded(obs.shape[3], COLUMNS)), F)
    ahead = np.zeros((padded(n_behind, ROWS), x.shape[1]), F)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents):
                if t < mask_end:
                    copy_row(obs[t, b, n], x[(t * n_windows + b) * n_agents + n])
                if place[t, b] >= 0:
                    row = place[t, b] * n_agents + n
                    copy_row(obs[t, b, n], ahead[row])
                    if double:
                        x[n_first + row] = ahead[row]
    values = evaluate(x, flat, shapes, cut)
    q, target_q = values[3], evaluate(ahead, target_flat, shapes, cut)[3]
    of_q = np.zeros((padded(n_first, ROWS), padded(n_actions, COLUMNS)), F)
    value = np.zeros(n_behind, F)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents if place[t, b] >= 0 else 0):
                row = place[t, b] * n_agents + n
                who = q[n_first + row] if double else target_q[row]
                value[row] = target_q[row, best_action(who, avail[t, b, n])]
    in_range = errors(
        q,
        value,
        place,
        end,
        mask_end,
        rule,
        n_actions,
        action,
        reward,
        terminated,
        mask,
        weight,
        eta,
        of_q,
        priority,
        sums,
    )
    differentiate(values, of_q, flat, shapes, cut, gradient)
    return in_range


@njit()
def fits(obs, mask_end, flat, target_flat, shapes, cut, avail, action):
    """Whether networks, observations and actions have the sizes that ``step`` relies on."""
    n_trunk, n_stream = cut
    n_in, channels, height, width = shapes[0, 0], shapes[0, 2], shapes[0, 3], shapes[0, 4]
    n_inputs = channels * height * width if channels else n_in
    n_outputs = shapes[n_trunk + n_stream - 1, 1]
    n_slots, n_windows, n_agents = action.shape
    networks = len(flat) == len(target_flat) == n_weights(shapes)
    values = obs.shape[3] == n_inputs and avail.shape[3] == n_outputs
    rows = obs.shape[:3] == avail.shape[:3] == (n_slots + 1, n_windows, n_agents)
    return networks and values and rows and 0 <= mask_end <= n_slots and n_slots > 0


@njit()
def fits_transitions(action, reward, terminated, last, mask, weight, priority):
    """Whether what belongs to transitions has the sizes that ``step`` relies on."""
    n_slots, n_windows, n_agents = action.shape
    rewards = reward.shape[2] == 1 or reward.shape[2] == n_agents
    rows = reward.shape[:2] == terminated.shape == mask.shape == (n_slots, n_windows)
    ends = last.shape == (n_slots + 1, n_windows)
    return rewards and rows and ends and len(weight) == len(priority) == n_windows


@njit()
def ends(last):
    """[B]: the real transitions of every window, those before its first ``last``."""
    n_slots, n_windows = last.shape
    end = np.empty(n_windows, np.int64)
    for b in range(n_windows):
        end[b] = 0
        while end[b] < n_slots - 1 and not last[end[b], b]:
            end[b] += 1
    return end


@njit()
def bootstraps(end, mask_end, n_step, terminated, mask):
    """Where values ahead are needed: numbers [T+1, B], -1 where they are not, and how many."""
    n_slots, n_windows = mask.shape
    place, n = np.full((n_slots + 1, n_windows), -1), 0
    for b in range(n_windows):
        for t in range(min(mask_end, end[b])):
            slot = min(t + n_step, end[b])
            if mask[t, b] and not terminated[slot - 1, b] and place[slot, b] < 0:
                place[slot, b] = n
                n += 1
    return place, n


@njit()
def copy_row(row, to):
    """The first numbers of ``to``."""
    for i in range(len(row)):
        to[i] = row[i]


@njit()
def errors(
    q,
    value,
    place,
    end,
    mask_end,
    rule,
    n_actions,
    action,
    reward,
    terminated,
    mask,
    weight,
    eta,
    of_q,
    priority,
    sums,
):
    """Fill ``of_q``, the gradient of the weighted loss sum by q, and what ``step`` gives; returns
    whether all actions are in range, at the first one that is not.
    """
    gamma, _, n_step, bound = rule
    n_windows, n_agents = action.shape[1], action.shape[2]
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
                there = place[until + 1, b]
                target = F(0) if terminated[until, b] else value[there * n_agents + n]
                for s in range(until, t - 1, -1):
                    discount = F(0) if terminated[s, b] else gamma
                    target = reward[s, b, 0 if team else n] + discount * target
                here, taken = (t * n_windows + b) * n_agents + n, action[t, b, n]
                if not 0 <= taken < n_actions:
                    return False
                error = q[here, taken] - target
                size = abs(error)
                if bound < 0:
                    loss, slope = error * error, F(2) * error
                elif size > bound:
                    loss, slope = bound * (size - F(0.5) * bound), np.copysign(bound, error)
                else:  # NaN too
                    loss, slope = F(0.5) * error * error, error
                of_q[here, taken] = weight[b] * slope
                priority[b] += size
                sizes[t] += size
                count += 1
                sums[0] += weight[b] * loss
                sums[2] += size
                sums[3] += q[here, taken]
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
    """The best available action, ties to the lowest; a NaN is best of all, as for ``argmax``."""
    best, highest = 0, F(-np.inf)
    for a in range(len(available)):
        if available[a] and not values[a] <= highest:
            best, highest = a, values[a]
            if highest != highest:
                break
    return best
