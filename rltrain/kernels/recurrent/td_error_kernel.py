"""TD errors of one window in machine code: n-step returns or TD(λ), squared or Huber."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic.tile_kernel import F

njit = partial(numba_cache.njit, __file__, fastmath={"contract", "nsz"})


@njit()
def errors(batch, b, length, value, bootstrap, options, slope, priority, sums):
    """Fill ``slope`` [T, M], the gradient by ``value`` [T, M] of window b, ``priority`` and
    ``sums``; ``bootstrap`` [T, M] are the values of the steps after.
    """
    reward, terminated, weight = batch.reward, batch.terminated, batch.weight[b]
    n_streams = value.shape[1]
    sizes, count, total = np.zeros(length, F), 0, F(0)
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
            if not batch.learned[t, b]:
                continue
            error = value[t, m] - target
            size, bound = abs(error), options.huber
            if bound < 0:
                loss, steep = error * error, F(2) * error
            elif size > bound:
                loss, steep = bound * (size - F(0.5) * bound), np.copysign(bound, error)
            else:  # NaN too
                loss, steep = F(0.5) * error * error, error
            slope[t, m] = weight * steep
            sizes[t] += size
            total += size
            count += 1
            sums[0] += weight * loss
            sums[2] += size
            sums[3] += value[t, m]
            sums[4] += target
    sums[1] += count
    largest = F(0)
    for t in range(length):
        largest = max(largest, sizes[t] / n_streams)
    mean = total / max(count, 1)
    priority[b] = mean + options.eta * (largest - mean)
