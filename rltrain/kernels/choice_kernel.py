"""Epsilon-greedy actions in machine code."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache


@numba_cache.njit(__file__)
def choose(q, available, epsilon, drawn, action):
    """Fill ``action`` [E, N]: the best available one, the first of equals, or where ``drawn[0]`` is
    below ``epsilon`` [E] the available one that ``drawn[1]`` stands for; 0 where none is available.

    Args:
        q, available: [E, N, A].
        drawn: [2, E, N] from 0 to 1.
    """
    n_envs, n_agents, n_actions = q.shape
    for e in range(n_envs):
        for n in range(n_agents):
            values, may = q[e, n], available[e, n]
            chosen = 0
            if drawn[0, e, n] < epsilon[e]:
                count = 0
                for a in range(n_actions):
                    count += may[a]
                left = np.int64(drawn[1, e, n] * count)
                for a in range(n_actions):
                    if may[a]:
                        if left == 0:
                            chosen = a
                            break
                        left -= 1
            else:
                highest = -np.inf
                for a in range(n_actions):
                    if may[a] and values[a] > highest:
                        chosen, highest = a, values[a]
            action[e, n] = chosen
