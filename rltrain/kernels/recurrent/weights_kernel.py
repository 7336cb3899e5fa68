"""Weights of recurrent teams as the compiled learning step reads them, and their gradients back."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic.activation_kernel import ZERO
from rltrain.kernels.arithmetic.tile_kernel import F, packed, padded
from rltrain.kernels.recurrent import agents_kernel, mixing_kernel
from rltrain.kernels.recurrent.agents_kernel import Agents
from rltrain.kernels.recurrent.mixing_kernel import Mixer

SOURCES = (__file__, *agents_kernel.SOURCES, mixing_kernel.__file__)
njit = partial(numba_cache.njit, *SOURCES)


@njit()
def prepare_agents(w_in, b_in, w_ih, w_hh, b_ih, b_hh, w_out, b_out, sizes, scale):
    """``Agents`` of the weights of a linear layer, a GRU cell and a linear layer.

    Args:
        sizes: O, previous actions and agent ids among the inputs (0 = none of them), agents.
        scale: of observations.
    """
    n_obs, n_last, n_ids, n_agents = sizes
    n, n_actions = w_hh.shape[1], len(b_out)
    size, width = padded(n), padded(n_actions)
    obs = np.zeros((n_obs, size), F)
    actions, agents = np.zeros((1 + n_last, size), F), np.zeros((n_agents, size), F)
    for j in range(n):
        for i in range(n_obs):
            obs[i, j] = w_in[j, i] * scale
        for i in range(n_last):
            actions[1 + i, j] = w_in[j, n_obs + i]
        for i in range(n_agents):
            agents[i, j] = b_in[j] + (w_in[j, n_obs + n_last + i] if n_ids else ZERO)
    both = np.zeros((2 * size, 2 * size), F)
    new, recurrent = np.zeros((size, size), F), np.zeros((size, size), F)
    to_state, to_input = np.zeros((3 * size, size), F), np.zeros((3 * size, size), F)
    bias = np.zeros((4, size), F)
    for j in range(n):
        bias[0, j], bias[1, j] = b_ih[j] + b_hh[j], b_ih[n + j] + b_hh[n + j]
        bias[2, j], bias[3, j] = b_hh[2 * n + j], b_ih[2 * n + j]
        for i in range(n):
            for gate in range(2):
                both[i, gate * size + j] = w_ih[gate * n + j, i]
                both[size + i, gate * size + j] = w_hh[gate * n + j, i]
            new[i, j], recurrent[i, j] = w_ih[2 * n + j, i], w_hh[2 * n + j, i]
            for gate in range(3):
                to_state[gate * size + j, i] = w_hh[gate * n + j, i]
                to_input[(gate + 1) % 3 * size + j, i] = w_ih[gate * n + j, i]
    rows, columns = np.zeros((width, size), F), np.zeros((size, width), F)
    value_bias = np.zeros(width, F)
    for a in range(n_actions):
        value_bias[a] = b_out[a]
        for j in range(n):
            rows[a, j] = columns[j, a] = w_out[a, j]
    return Agents(
        packed(obs),
        actions,
        agents,
        packed(both),
        packed(new),
        packed(recurrent),
        bias,
        packed(columns),
        value_bias,
        rows,
        packed(to_state),
        packed(to_input),
    )


@njit()
def prepare_mixer(one_1, one_2, two_1, two_2, value_1, value_2, bias_1):
    """``Mixer`` of eight pairs of weight and bias; three networks of two layers, and one layer."""
    n, units = one_1[0].shape[0], value_1[0].shape[0]
    state, n_agents = one_1[0].shape[1], one_2[0].shape[0] // units
    size, width = padded(n), padded(units)
    total = 2 * (size + width)
    first, first_bias = np.zeros((state, total), F), np.zeros(total, F)
    at = 0
    for weight, bias in (one_1, two_1, value_1, bias_1):
        for j in range(len(bias)):
            first_bias[at + j] = bias[j]
            for i in range(state):
                first[i, at + j] = weight[j, i]
        at += padded(len(bias))
    one, one_bias = np.zeros((n_agents * width, size), F), np.zeros(n_agents * width, F)
    for agent in range(n_agents):
        for j in range(units):
            one_bias[agent * width + j] = one_2[1][agent * units + j]
            for i in range(n):
                one[agent * width + j, i] = one_2[0][agent * units + j, i]
    two, two_bias, value = np.zeros((width, size), F), np.zeros(width, F), np.zeros(width, F)
    for j in range(units):
        two_bias[j], value[j] = two_2[1][j], value_2[0][0, j]
        for i in range(n):
            two[j, i] = two_2[0][j, i]
    return Mixer(
        packed(first),
        first_bias,
        packed(transposed(one)),
        one_bias,
        packed(transposed(two)),
        two_bias,
        value,
        value_2[1].copy(),
        packed(one),
        packed(two),
    )


@njit()
def transposed(x):
    """[R, M] to [M, R]."""
    out = np.empty((x.shape[1], x.shape[0]), F)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j, i] = x[i, j]
    return out


@njit()
def total(array):
    """The sum over shares, in their order; left in the first."""
    flat = array.reshape((len(array), array[0].size))
    for k in range(1, len(flat)):
        for j in range(flat.shape[1]):
            flat[0, j] += flat[k, j]
    return array[0]


@njit()
def write_agents(gradient, scale, w_in, b_in, w_ih, w_hh, b_ih, b_hh, w_out, b_out, n_last, n_ids):
    """The sums over shares as gradients of the weights that ``prepare_agents`` read."""
    obs, actions, agents = total(gradient.obs), total(gradient.actions), total(gradient.agents)
    both, new = total(gradient.reset_update), total(gradient.new)
    recurrent, bias = total(gradient.recurrent), total(gradient.bias)
    rows, value_bias = total(gradient.value_rows), total(gradient.value_bias)
    n, n_obs, size = w_hh.shape[1], len(obs), bias.shape[1]
    for j in range(n):
        b_in[j] = 0
        for i in range(len(agents)):
            b_in[j] += agents[i, j]
        for i in range(n_obs):
            w_in[j, i] = obs[i, j] * scale
        for i in range(n_last):
            w_in[j, n_obs + i] = actions[1 + i, j]
        for i in range(n_ids):
            w_in[j, n_obs + n_last + i] = agents[i, j]
        for gate in range(2):
            b_ih[gate * n + j] = b_hh[gate * n + j] = bias[gate + 1, j]
            for i in range(n):
                w_ih[gate * n + j, i] = both[gate * size + j, i]
                w_hh[gate * n + j, i] = both[gate * size + j, size + i]
        b_ih[2 * n + j], b_hh[2 * n + j] = bias[0, j], bias[3, j]
        for i in range(n):
            w_ih[2 * n + j, i], w_hh[2 * n + j, i] = new[j, i], recurrent[j, i]
    for a in range(len(b_out)):
        b_out[a] = value_bias[a]
        for j in range(n):
            w_out[a, j] = rows[a, j]


@njit()
def write_mixer(gradient, one_1, one_2, two_1, two_2, value_1, value_2, bias_1):
    """The sums over shares as gradients of the weights that ``prepare_mixer`` read."""
    first, first_bias = total(gradient.first), total(gradient.first_bias)
    one, one_bias = total(gradient.one), total(gradient.one_bias)
    two, two_bias = total(gradient.two), total(gradient.two_bias)
    value, value_bias = total(gradient.value), total(gradient.value_bias)
    units, width, at = value_1[0].shape[0], len(value), 0
    for weight, bias in (one_1, two_1, value_1, bias_1):
        for j in range(len(bias)):
            bias[j] = first_bias[at + j]
            for i in range(len(first)):
                weight[j, i] = first[i, at + j]
        at += padded(len(bias))
    for k in range(len(one_2[1])):
        row = k // units * width + k % units
        one_2[1][k] = one_bias[row]
        for i in range(one_2[0].shape[1]):
            one_2[0][k, i] = one[row, i]
    for j in range(units):
        two_2[1][j], value_2[0][0, j] = two_bias[j], value[j]
        for i in range(two_2[0].shape[1]):
            two_2[0][j, i] = two[j, i]
    value_2[1][0] = value_bias[0]
