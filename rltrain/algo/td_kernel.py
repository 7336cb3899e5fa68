"""TD errors of independent values and their gradient in one compiled pass over a batch.

``TDLoss`` says the same in some forty tensor operations; it is the oracle, and what other networks,
mixers and devices use. T, B, N, R and A as in ``types``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain import compiled
from rltrain.algo import stack_kernel
from rltrain.algo.dense_kernel import padded
from rltrain.algo.product import COLUMNS, ROWS, F
from rltrain.algo.stack_kernel import differentiate, evaluate, inputs

njit = partial(compiled.njit, __file__, *stack_kernel.SOURCES, fastmath={"contract", "nsz"})


@njit()
def step(
    obs,
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
    gradient,
    priority,
    sums,
):
    """The gradient of the loss sum by ``flat``; arguments as of ``errors``, obs [T+1, B, N, O]."""
    n_slots, n_windows, n_agents = action.shape
    n_actions = avail.shape[3]
    n_each = n_windows * n_agents  # rows of a slot
    double = rule[1]
    rows = obs.reshape((n_slots + 1) * n_each, obs.shape[3])
    values = evaluate(inputs(rows if double else rows[: n_slots * n_each]), flat, shapes, cut)
    ahead = evaluate(inputs(rows[n_each:]), target_flat, shapes, cut)
    q, target_q = values[3], ahead[3]
    n_learned = n_slots * n_each
    of_q = np.zeros((padded(n_learned, ROWS), padded(n_actions, COLUMNS)), F)
    errors(
        q,
        target_q,
        rule,
        avail,
        action,
        reward,
        terminated,
        last,
        mask,
        weight,
        of_q,
        priority,
        sums,
    )
    differentiate(values, of_q, flat, shapes, cut, gradient)


@njit()
def errors(
    q, target_q, rule, avail, action, reward, terminated, last, mask, weight, of_q, priority, sums
):
    """Fill what is to be known about the TD errors of a batch.

    Args:
        q: [(T+1) · B · N, A], the online values, slot by slot; of slot T only if they choose.
        target_q: [T · B · N, A], the target network's, from slot 1 on.
        rule: discount, whether the online values choose, rewards summed, Huber's bound or -1.
        of_q: zeros; becomes the gradient of the weighted loss sum by q.
        priority: zeros [B]; becomes the mean |error| of every window.
        sums: zeros [5]; become loss, count, |error|, q taken, target.
    """
    gamma, double, n_step, bound = rule
    n_slots, n_windows, n_agents = action.shape
    n_each = n_windows * n_agents
    team = reward.shape[2] == 1
    value = np.empty(n_slots, F)  # bootstraps of slots 1 … T
    for b in range(n_windows):
        end = 0  # real transitions
        while end < n_slots and not last[end, b]:
            end += 1
        n_taught = 0
        for n in range(n_agents):
            row = b * n_agents + n
            for t in range(end):
                there = t * n_each + row
                if double:
                    best = best_action(q[there + n_each], avail[t + 1, b, n])
                else:
                    best = best_action(target_q[there], avail[t + 1, b, n])
                value[t] = target_q[there, best]
            for t in range(end):
                if not mask[t, b]:
                    continue
                until = min(t + n_step, end) - 1  # the last transition summed
                target = value[until]
                for s in range(until, t - 1, -1):
                    discount = F(0) if terminated[s, b] else gamma
                    target = reward[s, b, 0 if team else n] + discount * target
                here, taken = t * n_each + row, action[t, b, n]
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
                n_taught += 1
                sums[0] += weight[b] * loss
                sums[2] += size
                sums[3] += q[here, taken]
                sums[4] += target
        sums[1] += n_taught
        priority[b] /= max(n_taught, 1)


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
