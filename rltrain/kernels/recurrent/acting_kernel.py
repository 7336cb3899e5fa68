"""One step of recurrent agents in machine code, for acting.

Everything is transposed, [features, rows]: so the weights, [outputs, inputs], are the left side of
each product as they are, and acting needs no copy of weights that change with every update.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, tile_kernel
from rltrain.kernels.arithmetic.activation_kernel import ONE, TWO, ZERO, sigmoid
from rltrain.kernels.arithmetic.tile_kernel import COLUMNS, F, multiply, padded

njit = partial(
    numba_cache.njit,
    __file__,
    activation_kernel.__file__,
    tile_kernel.__file__,
    fastmath={"contract", "nsz"},
)


@njit()
def step(obs, last_action, hidden, weights, n_last, n_ids, scale, q, after):
    """A linear layer, a GRU cell and a linear layer; whether the previous actions are in range.

    Args:
        obs, last_action, hidden: [E, N, O], [E, N], [E, N, H].
        weights: of the input layer, the cell's two, and the output layer, [outputs, inputs] each.
        n_last, n_ids: previous actions and agent ids among the inputs, 0 if they are not.
        q, after: [E, N, A] and [E, N, H], become the values and the next state.
    """
    w_in, b_in, w_ih, w_hh, b_ih, b_hh, w_out, b_out = weights
    n_agents, n_obs, size = obs.shape[1], obs.shape[2], hidden.shape[2]
    n_rows, n_actions = obs.shape[0] * n_agents, len(b_out)
    width = padded(n_rows)
    seen, state = np.zeros((n_obs, width), F), np.zeros((size, width), F)
    inner = np.empty((size, width), F)
    of_input, of_state = np.empty((3 * size, width), F), np.empty((3 * size, width), F)
    values = np.empty((n_actions, width), F)
    for r in range(n_rows):
        e, n = r // n_agents, r % n_agents
        last = last_action[e, n]
        if n_last and not -1 <= last < n_last:
            return False
        for i in range(n_obs):
            seen[i, r] = obs[e, n, i] * scale
        for j in range(size):
            state[j, r] = hidden[e, n, j]
        with_last, with_id = n_last > 0 and last >= 0, n_ids > 0
        for j in range(size):
            start = b_in[j]
            if with_last:
                start += w_in[j, n_obs + last]
            if with_id:
                start += w_in[j, n_obs + n_last + n]
            inner[j, r] = start
    add(inner, w_in, seen)
    for j in range(size):
        for r in range(width):
            inner[j, r] = ZERO if inner[j, r] < ZERO else inner[j, r]
    fill(of_input, b_ih)
    add(of_input, w_ih, inner)
    fill(of_state, b_hh)
    add(of_state, w_hh, state)
    for j in range(2 * size):
        for r in range(width):
            of_input[j, r] = sigmoid(of_input[j, r] + of_state[j, r])
    for j in range(size):
        reset, update = of_input[j], of_input[size + j]
        new, recurrent, line = of_input[2 * size + j], of_state[2 * size + j], state[j]
        for r in range(width):
            new[r] = TWO * sigmoid(TWO * (new[r] + reset[r] * recurrent[r])) - ONE
        for r in range(width):
            line[r] = new[r] + update[r] * (line[r] - new[r])
    fill(values, b_out)
    add(values, w_out, state)
    for r in range(n_rows):
        e, n = r // n_agents, r % n_agents
        for a in range(n_actions):
            q[e, n, a] = values[a, r]
        for j in range(size):
            after[e, n, j] = state[j, r]
    return True


@njit()
def fill(out, bias):
    """Every row its bias."""
    for j in range(len(bias)):
        for r in range(out.shape[1]):
            out[j, r] = bias[j]


@njit()
def add(out, weight, x):
    """Add the product of weights [M, K or more] and x [K, R]."""
    n, width = x.shape
    flat = out.reshape(-1)
    multiply(
        (flat, 0, width),
        (flat, 0, width),
        (weight.reshape(-1), 0, weight.shape[1], 1),
        (x.reshape(-1), 0, COLUMNS, width),
        len(out),
        width,
        n,
    )
