"""Acting in machine code: one step of recurrent agents, and epsilon-greedy actions.

Values of the step are transposed, [features, rows]: so the weights, [outputs, inputs], are the left
side of each product as they are, and acting needs no copy of weights that change with every update.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, linear_kernel
from rltrain.kernels.arithmetic.activation_kernel import ONE, TWO, ZERO, sigmoid
from rltrain.kernels.arithmetic.linear_kernel import add_product
from rltrain.kernels.arithmetic.tile_kernel import F, padded

njit = numba_cache.arithmetic(__file__, activation_kernel, linear_kernel)


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
    add_product(inner, (w_in.reshape(-1), 0, w_in.shape[1], 1), seen)
    for j in range(size):
        for r in range(width):
            inner[j, r] = ZERO if inner[j, r] < ZERO else inner[j, r]
    fill(of_input, b_ih)
    add_product(of_input, (w_ih.reshape(-1), 0, w_ih.shape[1], 1), inner)
    fill(of_state, b_hh)
    add_product(of_state, (w_hh.reshape(-1), 0, w_hh.shape[1], 1), state)
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
    add_product(values, (w_out.reshape(-1), 0, w_out.shape[1], 1), state)
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
def choose(q, available, epsilon, drawn, action):
    """Fill ``action`` [E, N]: the best available one, the first of equals, or where ``drawn[0]`` is
    below ``epsilon`` [E] the available one that ``drawn[1]`` stands for; 0 where none is available.
    Returns whether no value is NaN.

    Args:
        q, available: [E, N, A].
        drawn: [2, E, N] from 0 to 1.
    """
    n_envs, n_agents, n_actions = q.shape
    numbers = True
    for e in range(n_envs):
        for n in range(n_agents):
            values, may = q[e, n], available[e, n]
            chosen = 0
            for a in range(n_actions):
                numbers &= values[a] == values[a]
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
    return numbers
