"""Recurrent agents of a few episodes in machine code, all time steps forward and backward.

A chunk is E episodes, longest first, with the rows of all their agents: step t has the rows of the
episodes that reach it. P rows of all steps follow each other: those of step 0, then those of step
1, …; rows of a step are E_t · N, agent by agent. H, A and O are padded to whole registers with
zeros, except where said. A row's numbers depend neither on its chunk nor on the thread.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, tile_kernel
from rltrain.kernels.arithmetic.activation_kernel import ONE, TWO, ZERO, sigmoid
from rltrain.kernels.arithmetic.tile_kernel import COLUMNS, F, add_outer, multiply, take_matrix

SLAB = 128
"""Rows whose gradients are added to those of the weights at once: they stay in the caches."""

njit = numba_cache.arithmetic(__file__, activation_kernel, tile_kernel)


class AgentArrays(NamedTuple):
    """Weights as the loops read them; b of ``multiply`` where packed."""

    obs: np.ndarray  # packed [O, H], O as it is
    actions: np.ndarray  # [1 + A, H]: of the previous action, row 0 stands for none
    agents: np.ndarray  # [N, H]: of the agent id, with the bias
    reset_update: np.ndarray  # packed [2H, 2H], of input and state to r and z
    new: np.ndarray  # packed [H, H], of the input to n
    recurrent: np.ndarray  # packed [H, H], of the state to n
    bias: np.ndarray  # [4, H]: of r, z, n's recurrent part, n
    values: np.ndarray  # packed [H, A]
    value_bias: np.ndarray  # [A]
    value_rows: np.ndarray  # [A, H]
    to_state: np.ndarray  # packed [3H, H], back from r, z, n's recurrent part
    to_input: np.ndarray  # packed [3H, H], back from n, r, z


class AgentGradient(NamedTuple):
    """Sums over rows, of the weights they are named after."""

    obs: np.ndarray  # [O, H]
    actions: np.ndarray  # [1 + A, H]
    agents: np.ndarray  # [N, H]
    reset_update: np.ndarray  # [2H, 2H], outputs r, z; inputs x, h
    new: np.ndarray  # [H, H]
    recurrent: np.ndarray  # [H, H]
    bias: np.ndarray  # [4, H]: n, r, z, n's recurrent part
    value_bias: np.ndarray  # [A]
    value_rows: np.ndarray  # [A, H]


@njit()
def agent_gradient(flat, agents, n_obs):
    """``AgentGradient`` of ``AgentArrays``, in the first elements of ``flat``; and the others."""
    size, width = agents.bias.shape[1], len(agents.value_bias)
    obs, flat = take_matrix(flat, n_obs, size)
    actions, flat = take_matrix(flat, len(agents.actions), size)
    ids, flat = take_matrix(flat, len(agents.agents), size)
    reset_update, flat = take_matrix(flat, 2 * size, 2 * size)
    new, flat = take_matrix(flat, size, size)
    recurrent, flat = take_matrix(flat, size, size)
    bias, flat = take_matrix(flat, 4, size)
    rows, flat = take_matrix(flat, width, size)
    gradient = AgentGradient(
        obs, actions, ids, reset_update, new, recurrent, bias, flat[:width], rows
    )
    return gradient, flat[width:]


class Chunk(NamedTuple):
    """The episodes of a chunk, and where they are in a batch."""

    episodes: np.ndarray  # [E]
    length: np.ndarray  # [E] transitions, never growing
    start: np.ndarray  # [T+2] first row of every step, and the end


@njit()
def make_chunk(episodes, lengths, n_agents):
    """The chunk of ``episodes`` [E], longest first; ``lengths`` [B] of the whole batch."""
    length = np.empty(len(episodes), np.int64)
    for i in range(len(episodes)):
        length[i] = lengths[episodes[i]]
    start = np.zeros(length[0] + 2, np.int64)
    for t in range(length[0] + 1):
        start[t + 1] = start[t] + reaching(length, t) * n_agents
    return Chunk(episodes, length, start)


@njit()
def reaching(length, t):
    """How many episodes of ``length`` transitions have a step t."""
    n = len(length)
    while n and length[n - 1] < t:
        n -= 1
    return n


@njit()
def forward(agents, chunk, obs, last_action, inputs, gates, q):
    """Values of all rows.

    Args:
        obs, last_action: [T+1, B, N, O], [T+1, B, N] of the batch.
        inputs: [P, 2, H], becomes the cell's input and the state before.
        gates: [P, 4, H], becomes r, z, n's recurrent part, n. Both have the rows of all steps, or
            only as many as step 0, which every step then overwrites.
        q: [P, A], becomes the values.
    """
    n_agents, n_obs, size = obs.shape[2], obs.shape[3], gates.shape[2]
    most, width = len(chunk.episodes) * n_agents, q.shape[1]
    seen, state = np.empty((most, n_obs), F), np.zeros((most, size), F)
    x, g, s, y = seen.reshape(-1), gates.reshape(-1), state.reshape(-1), q.reshape(-1)
    e, bias, with_last = inputs.reshape(-1), agents.bias.reshape(-1), len(agents.actions) > 1
    panel = COLUMNS * size
    for t in range(len(chunk.start) - 1):
        n_rows = chunk.start[t + 1] - chunk.start[t]
        first = chunk.start[t] if len(gates) == chunk.start[-1] else 0
        read_step(chunk, obs, t, n_rows // n_agents, seen)
        for i in range(n_rows):
            p, b, agent = first + i, chunk.episodes[i // n_agents], i % n_agents
            last = last_action[t, b, agent] + 1 if with_last else 0
            for j in range(size):
                inputs[p, 0, j] = agents.agents[agent, j] + agents.actions[last, j]
            for j in range(size):
                inputs[p, 1, j] = state[i, j]
        rows, before = (e, 2 * size * first, 2 * size), 2 * size * first + size
        multiply(
            rows, rows, (x, 0, n_obs, 1), (agents.obs, 0, COLUMNS * n_obs, COLUMNS),
            n_rows, size, n_obs,
        )  # fmt: skip
        for i in range(n_rows):
            for j in range(size):
                value = inputs[first + i, 0, j]
                inputs[first + i, 0, j] = ZERO if value < ZERO else value
        at = 4 * size * first
        to = g, at, 4 * size
        multiply(
            to, (bias, 0, 0), (e, rows[1], 2 * size, 1),
            (agents.reset_update, 0, 2 * panel, COLUMNS), n_rows, 2 * size, 2 * size,
        )  # fmt: skip
        multiply(
            (g, at + 2 * size, 4 * size), (bias, 2 * size, 0), (e, before, 2 * size, 1),
            (agents.recurrent, 0, panel, COLUMNS), n_rows, size, size,
        )  # fmt: skip
        multiply(
            (g, at + 3 * size, 4 * size), (bias, 3 * size, 0), (e, rows[1], 2 * size, 1),
            (agents.new, 0, panel, COLUMNS), n_rows, size, size,
        )  # fmt: skip
        for i in range(n_rows):
            step_gates(gates, first + i, state, i)
        multiply(
            (y, chunk.start[t] * width, width), (agents.value_bias, 0, 0), (s, 0, size, 1),
            (agents.values, 0, panel, COLUMNS), n_rows, width, size,
        )  # fmt: skip


@njit()
def step_gates(gates, p, state, i):
    """One row of a GRU step: sums gates[p] [4, H] become r, z, n's recurrent part, n; the next
    state is state[i] [H].
    """
    size = state.shape[1]  # rows as arrays of their own would have their references counted
    for gate in range(2):
        for j in range(size):
            gates[p, gate, j] = sigmoid(gates[p, gate, j])
    for j in range(size):
        n = gates[p, 3, j] + gates[p, 0, j] * gates[p, 2, j]
        gates[p, 3, j] = TWO * sigmoid(TWO * n) - ONE
    for j in range(size):
        state[i, j] = gates[p, 3, j] + gates[p, 1, j] * (state[i, j] - gates[p, 3, j])


@njit()
def read_step(chunk, obs, t, n_episodes, seen):
    """The observations of step t one after the other, [rows, O]."""
    n_agents = obs.shape[2]
    for i in range(n_episodes):
        for agent in range(n_agents):
            b, row = chunk.episodes[i], i * n_agents + agent
            for j in range(seen.shape[1]):
                seen[row, j] = obs[t, b, agent, j]


@njit()
def backward(agents, chunk, obs, last_action, action, inputs, gates, of_q, gradient):
    """Add to ``gradient``.

    Args:
        action: [T, B, N], the actions taken.
        inputs, gates: as ``forward`` left them.
        of_q: [E, T, N], the gradient by the values of the actions taken.
    """
    n_agents, n_obs, size = obs.shape[2], obs.shape[3], gates.shape[2]
    most = len(chunk.episodes) * n_agents
    n_slab = SLAB + most
    seen, of_input = np.empty((n_slab, n_obs), F), np.empty((n_slab, size), F)
    sums = np.zeros((n_slab, 4, size), F)
    of_state, zeros = np.zeros((most, size), F), np.zeros(size, F)
    s, d, x, panel = sums.reshape(-1), of_state.reshape(-1), of_input.reshape(-1), COLUMNS * size
    slab, end = n_slab, chunk.start[-1]  # first row that is used, and the row at its end
    for t in range(len(chunk.start) - 2, -1, -1):
        n_rows, first = chunk.start[t + 1] - chunk.start[t], chunk.start[t]
        n_moving = reaching(chunk.length, t + 1) * n_agents
        slab -= n_rows
        for i in range(n_moving, n_rows):  # of final observations nothing is learned
            sums[slab + i] = ZERO
        for i in range(n_moving):
            episode, agent = i // n_agents, i % n_agents
            b, slope = chunk.episodes[episode], of_q[episode, t, agent]
            taken = action[t, b, agent]
            gradient.value_bias[taken] += slope
            row = chunk.start[t + 1] + i
            for j in range(size):
                gradient.value_rows[taken, j] += slope * inputs[row, 1, j]
            for j in range(size):
                of_state[i, j] += slope * agents.value_rows[taken, j]
            gradient_of_gates(gates, inputs, first + i, of_state, i, sums, slab + i)
        at = 4 * size * slab
        multiply(
            (d, 0, size), (d, 0, size), (s, at + size, 4 * size, 1),
            (agents.to_state, 0, 3 * panel, COLUMNS), n_moving, size, 3 * size,
        )  # fmt: skip
        multiply(
            (x, slab * size, size), (zeros, 0, 0), (s, at, 4 * size, 1),
            (agents.to_input, 0, 3 * panel, COLUMNS), n_rows, size, 3 * size,
        )  # fmt: skip
        for i in range(n_rows):
            for j in range(size):
                positive = inputs[first + i, 0, j] > ZERO
                of_input[slab + i, j] = of_input[slab + i, j] if positive else ZERO
        read_step(chunk, obs, t, n_rows // n_agents, seen[slab:])
        add_tables(chunk, last_action, t, n_moving, of_input[slab:], gradient)
        if slab < most or t == 0:
            add_products(seen, of_input, sums, inputs[first:end], slab, gradient)
            slab, end = n_slab, first


@njit()
def gradient_of_gates(gates, inputs, p, of_state, i, sums, to):
    """One row of a GRU step back: sums[to] [4, H] become the gradients by the sums n, r, z, n's
    recurrent part; of_state[i] [H] becomes the direct part of that by inputs[p, 1], the state
    before.
    """
    size = of_state.shape[1]
    for j in range(size):
        n = gates[p, 3, j]
        sums[to, 0, j] = of_state[i, j] * (ONE - gates[p, 1, j]) * (ONE - n * n)
    for j in range(size):
        sums[to, 3, j] = sums[to, 0, j] * gates[p, 0, j]
    for j in range(size):
        sums[to, 1, j] = sums[to, 3, j] * gates[p, 2, j] * (ONE - gates[p, 0, j])
    for j in range(size):
        z = gates[p, 1, j]
        sums[to, 2, j] = of_state[i, j] * (inputs[p, 1, j] - gates[p, 3, j]) * z * (ONE - z)
    for j in range(size):
        of_state[i, j] *= gates[p, 1, j]


@njit()
def add_tables(chunk, last_action, t, n_rows, of_input, gradient):
    """Add the rows of step t to the gradients of previous actions and agent ids."""
    n_agents, with_last, size = last_action.shape[2], len(gradient.actions) > 1, of_input.shape[1]
    for i in range(n_rows):
        agent = i % n_agents
        for j in range(size):
            gradient.agents[agent, j] += of_input[i, j]
        if with_last:
            last = last_action[t, chunk.episodes[i // n_agents], agent] + 1
            for j in range(size):
                gradient.actions[last, j] += of_input[i, j]


@njit()
def add_products(seen, of_input, sums, inputs, first, gradient):
    """Add the products of the rows from ``first`` on; ``inputs`` [rows, 2, H] are theirs."""
    n_rows, size, n_obs = len(seen) - first, of_input.shape[1], seen.shape[1]
    s, e, at = sums.reshape(-1), inputs.reshape(-1), 4 * size * first
    both, obs = gradient.reset_update.reshape(-1), gradient.obs.reshape(-1)
    new, recurrent = gradient.new.reshape(-1), gradient.recurrent.reshape(-1)
    add_outer(
        (obs, 0, size), (seen.reshape(-1), first * n_obs, n_obs),
        (of_input.reshape(-1), first * size, size), n_obs, size, n_rows,
    )  # fmt: skip
    add_outer(
        (both, 0, 2 * size), (s, at + size, 4 * size), (e, 0, 2 * size),
        2 * size, 2 * size, n_rows,
    )  # fmt: skip
    add_outer(
        (new, 0, size), (s, at, 4 * size), (e, 0, 2 * size), size, size, n_rows,
    )  # fmt: skip
    add_outer(
        (recurrent, 0, size), (s, at + 3 * size, 4 * size), (e, size, 2 * size),
        size, size, n_rows,
    )  # fmt: skip
    for i in range(first, len(seen)):
        for gate in range(4):
            for j in range(size):
                gradient.bias[gate, j] += sums[i, gate, j]
