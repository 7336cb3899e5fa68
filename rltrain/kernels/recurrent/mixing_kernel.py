"""QMIX's mixing network over the steps of one episode in machine code, forward and backward.

The first layers of its hyper-networks are one product. T steps, N agents, S state, E units of the
mixing network, H of the hyper-networks; E and H are padded to whole registers with zeros.
W = 2H + 2E outputs of the first layers: to the weights of layer 1, to those of layer 2, to the
value of the state (these with ReLU), and the bias of layer 1.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, tile_kernel
from rltrain.kernels.arithmetic.activation_kernel import ONE, ZERO, elu
from rltrain.kernels.arithmetic.tile_kernel import COLUMNS, F, add_outer, multiply, take_matrix

njit = numba_cache.arithmetic(__file__, activation_kernel, tile_kernel)


class MixerArrays(NamedTuple):
    """Weights as the loops read them; b of ``multiply`` where packed."""

    first: np.ndarray  # packed [S, W]
    first_bias: np.ndarray  # [W]
    one: np.ndarray  # packed [H, N E]
    one_bias: np.ndarray  # [N E]
    two: np.ndarray  # packed [H, E]
    two_bias: np.ndarray  # [E]
    value: np.ndarray  # [E]
    value_bias: np.ndarray  # [1]
    one_back: np.ndarray  # packed [N E, H]
    two_back: np.ndarray  # packed [E, H]


class MixerGradient(NamedTuple):
    """Sums over steps, of the weights they are named after."""

    first: np.ndarray  # [S, W]
    first_bias: np.ndarray  # [W]
    one: np.ndarray  # [N E, H]
    one_bias: np.ndarray  # [N E]
    two: np.ndarray  # [E, H]
    two_bias: np.ndarray  # [E]
    value: np.ndarray  # [E]
    value_bias: np.ndarray  # [1]


@njit()
def mixer_gradient(flat, mixer, n_state):
    """``MixerGradient`` of ``MixerArrays`` in ``flat``."""
    total, width, n_one = len(mixer.first_bias), len(mixer.value), len(mixer.one_bias)
    size = total // 2 - width
    first, flat = take_matrix(flat, n_state if total else 0, total)
    one, flat = take_matrix(flat, n_one, size)
    two, flat = take_matrix(flat, width, size)
    first_bias, flat = flat[:total], flat[total:]
    one_bias, flat = flat[:n_one], flat[n_one:]
    two_bias, value, value_bias = flat[:width], flat[width : 2 * width], flat[2 * width :]
    return MixerGradient(first, first_bias, one, one_bias, two, two_bias, value, value_bias)


class Mixed(NamedTuple):
    """The results of ``mix``."""

    first: np.ndarray  # [T, W] outputs of the first layers
    one: np.ndarray  # [T, N, E] weights of layer 1, with their sign
    two: np.ndarray  # [T, E] weights of layer 2, with their sign
    units: np.ndarray  # [T, E]
    value: np.ndarray  # [T]


@njit()
def empty_mixed(mixer, n_steps):
    """Arrays for ``mix`` of up to ``n_steps`` steps."""
    width = len(mixer.value)
    return Mixed(
        np.empty((n_steps, len(mixer.first_bias)), F),
        np.empty((n_steps, len(mixer.one_bias) // max(width, 1), width), F),
        np.empty((n_steps, width), F),
        np.empty((n_steps, width), F),
        np.empty(n_steps, F),
    )


@njit()
def mix(mixer, state, first_step, episode, q, n_steps, out):
    """The team's values of ``n_steps`` steps from ``first_step`` on.

    Args:
        state: [T+1, B, S] of the batch.
        q: [T, N] the agents' values.
        out: ``Mixed``, becomes the result.
    """
    n_windows, n_state = state.shape[1], state.shape[2]
    total, width, n_agents = len(mixer.first_bias), len(mixer.value), q.shape[1]
    size, n_one = total // 2 - width, n_agents * width
    at, row = (first_step * n_windows + episode) * n_state, n_windows * n_state
    first, panel = out.first.reshape(-1), COLUMNS * size
    multiply(
        (first, 0, total), (mixer.first_bias, 0, 0), (state.reshape(-1), at, row, 1),
        (mixer.first, 0, COLUMNS * n_state, COLUMNS), n_steps, total, n_state,
    )  # fmt: skip
    for t in range(n_steps):
        line = out.first[t, : total - width]
        for j in range(len(line)):
            line[j] = ZERO if line[j] < ZERO else line[j]
    multiply(
        (out.one.reshape(-1), 0, n_one), (mixer.one_bias, 0, 0), (first, 0, total, 1),
        (mixer.one, 0, panel, COLUMNS), n_steps, n_one, size,
    )  # fmt: skip
    multiply(
        (out.two.reshape(-1), 0, width), (mixer.two_bias, 0, 0), (first, size, total, 1),
        (mixer.two, 0, panel, COLUMNS), n_steps, width, size,
    )  # fmt: skip
    for t in range(n_steps):
        bias, units = out.first[t, total - width :], out.units[t]
        for j in range(width):
            units[j] = bias[j]
        for agent in range(n_agents):
            weight, value = out.one[t, agent], q[t, agent]
            for j in range(width):
                units[j] += value * abs(weight[j])
        for j in range(width):
            units[j] = elu(units[j])
        of_state, sum_ = out.first[t, 2 * size : 2 * size + width], mixer.value_bias[0]
        for j in range(width):
            sum_ += units[j] * abs(out.two[t, j]) + of_state[j] * mixer.value[j]
        out.value[t] = sum_


@njit()
def unmix(mixer, state, episode, q, n_steps, out, of_value, of_q, gradient):
    """Add to ``gradient``, and fill the gradient ``of_q`` [T, N] by ``q``.

    Args:
        state, q: of the steps from 0 on.
        out: as ``mix`` left it; overwritten.
        of_value: [T, 1] the gradient by the team's values.
    """
    n_windows, n_state = state.shape[1], state.shape[2]
    total, width, n_agents = len(mixer.first_bias), len(mixer.value), q.shape[1]
    size, n_one = total // 2 - width, n_agents * width
    of_first, zeros = np.empty((n_steps, total), F), np.zeros(total, F)
    of_units = np.empty(width, F)
    for t in range(n_steps):
        slope, units, line = of_value[t, 0], out.units[t], out.first[t]
        two, value, of_bias = out.two[t], line[2 * size :], of_first[t, total - width :]
        of_state = of_first[t, 2 * size :]
        gradient.value_bias[0] += slope
        for j in range(width):
            gradient.value[j] += slope * value[j]
        for j in range(width):
            of_state[j] = slope * mixer.value[j] if value[j] > ZERO else ZERO
        for j in range(width):
            inner = ONE if units[j] > ZERO else units[j] + ONE
            of_units[j] = slope * abs(two[j]) * inner
        for j in range(width):
            two[j] = slope * units[j] * sign(two[j])
        for j in range(width):
            gradient.two_bias[j] += two[j]
        for j in range(width):
            of_bias[j] = of_units[j]
        for agent in range(n_agents):
            one, own, of_own = out.one[t, agent], q[t, agent], ZERO
            of_one = gradient.one_bias[agent * width : (agent + 1) * width]
            for j in range(width):
                of_own += of_units[j] * abs(one[j])
            of_q[t, agent] = of_own
            for j in range(width):
                one[j] = of_units[j] * own * sign(one[j])
            for j in range(width):
                of_one[j] += one[j]
    one, two, first = out.one.reshape(-1), out.two.reshape(-1), out.first.reshape(-1)
    back, panel = of_first.reshape(-1), COLUMNS * width
    multiply(
        (back, 0, total), (zeros, 0, 0), (one, 0, n_one, 1),
        (mixer.one_back, 0, panel * n_agents, COLUMNS), n_steps, size, n_one,
    )  # fmt: skip
    multiply(
        (back, size, total), (zeros, 0, 0), (two, 0, width, 1),
        (mixer.two_back, 0, panel, COLUMNS), n_steps, size, width,
    )  # fmt: skip
    for t in range(n_steps):
        for j in range(2 * size):
            of_first[t, j] = of_first[t, j] if out.first[t, j] > ZERO else ZERO
        for j in range(total):
            gradient.first_bias[j] += of_first[t, j]
    at, row = episode * n_state, n_windows * n_state
    of_one, of_two = gradient.one.reshape(-1), gradient.two.reshape(-1)
    of_layer = gradient.first.reshape(-1)
    add_outer((of_one, 0, size), (one, 0, n_one), (first, 0, total), n_one, size, n_steps)
    add_outer((of_two, 0, size), (two, 0, width), (first, size, total), width, size, n_steps)
    add_outer(
        (of_layer, 0, total), (state.reshape(-1), at, row), (back, 0, total),
        n_state, total, n_steps,
    )  # fmt: skip


@njit()
def sign(x):
    """1, -1, 0, or NaN."""
    return ONE if x > ZERO else -ONE if x < ZERO else x
