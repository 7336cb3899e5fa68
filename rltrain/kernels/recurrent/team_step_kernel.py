"""A learning step of recurrent teams in machine code: values, TD errors and gradient.

Episodes are divided into shares, whatever the number of threads. A thread computes everything of a
share by itself, forward and backward; then the shares' gradients are added in their order. So the
threads meet once, and their number changes no byte. Letters as in ``types``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic.tile_kernel import F
from rltrain.kernels.layers import td_error_kernel
from rltrain.kernels.layers.td_error_kernel import best_action, consistent, ends, errors
from rltrain.kernels.recurrent import agents_kernel, mixing_kernel
from rltrain.kernels.recurrent.agents_kernel import agent_gradient, backward, forward, make_chunk
from rltrain.kernels.recurrent.mixing_kernel import empty_mixed, mix, mixer_gradient, unmix

njit = numba_cache.arithmetic(__file__, agents_kernel, mixing_kernel, td_error_kernel)
ROWS = 32
"""Rows of one step that a chunk has at least, where its share is as large."""
INDEPENDENT, SUM, MIX = 0, 1, 2


@intrinsic
def take(typing, counter):
    """Add 1 to the only element of an int64 array, atomically; returns what it was."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, value=arguments[0])
        return builder.atomic_rmw("add", array.data, ir.IntType(64)(1), "monotonic")

    return types.int64(counter), generate


@njit(nogil=True)
def step(
    counter, shares, lengths, batch, nets, mixers, mixer, options, target_values, gradients,
    priority, sums,
):  # fmt: skip
    """Compute shares until there is none left; every thread calls this.

    Args:
        counter: [1], the next share.
        shares: [K, 2], first and last + 1 of the places in ``lengths[1]``.
        lengths: [2, B]: transitions of every window; windows, longest first.
        batch: ``BatchArrays``.
        nets, mixers: ``AgentArrays`` and ``MixerArrays``, online and target.
        mixer: INDEPENDENT, SUM or MIX.
        options: ``LossOptions``.
        target_values: ``Places``; values that are not known are computed.
        gradients: zeros [K, …], become ``agent_gradient`` and ``mixer_gradient`` of the loss sum.
        priority: zeros [B], become eta times the largest and 1 - eta times the mean |error| of the
            steps of every window.
        sums: zeros [K, 5], become loss, count, |error|, value of what was done, target.
    """
    while True:
        share = take(counter)
        if share >= len(shares):
            return
        low, high = shares[share]
        n_agents = batch.obs.shape[2]
        n_episodes = max(1, ROWS // n_agents)
        for first in range(low, high, n_episodes):
            episodes = lengths[1, first : min(high, first + n_episodes)]
            chunk = make_chunk(episodes, lengths[0], n_agents)
            if chunk.length[0] > 0:
                evaluate_target(chunk, lengths[0], batch, nets[1], target_values)
                learn(
                    chunk, batch, nets, mixers, mixer, options, target_values, gradients[share],
                    priority, sums[share],
                )  # fmt: skip


@njit()
def windows(batch):
    """[2, B]: the real transitions of every window, those before its first ``last``; and the
    windows, longest first. Whether the fields of ``BatchArrays`` fit each other, and every action
    of these is an index of ``avail_actions``.
    """
    action, last_action, n_actions = batch.action, batch.last_action, batch.avail_actions.shape[3]
    n_windows, in_range = action.shape[1], consistent(batch)
    out = np.empty((2, n_windows), np.int64)
    if not in_range:
        return out, False
    out[0] = ends(batch.last)
    for b in range(n_windows):
        t = out[0, b]
        for s in range(t + 1):
            for n in range(action.shape[2]):
                in_range &= -1 <= last_action[s, b, n] < n_actions
                in_range &= s == t or 0 <= action[s, b, n] < n_actions
    for b in range(n_windows):
        place = b
        while place > 0 and out[0, out[1, place - 1]] < out[0, b]:
            out[1, place] = out[1, place - 1]
            place -= 1
        out[1, place] = b
    return out, in_range


@njit(inline="always")
def learn(chunk, batch, nets, mixers, mixer, options, target_values, gradient, priority, sums):
    """Forward and backward of a chunk of episodes."""
    obs, last_action = batch.obs, batch.last_action
    n_rows, size = chunk.start[-1], nets[0].bias.shape[1]
    width, n_agents = len(nets[0].value_bias), obs.shape[2]
    inputs, gates = np.empty((n_rows, 2, size), F), np.empty((n_rows, 4, size), F)
    q = np.empty((n_rows, width), F)
    forward(nets[0], chunk, obs, last_action, inputs, gates, q)
    n_episodes, n_steps = len(chunk.episodes), chunk.length[0]
    of_q = np.empty((n_episodes, n_steps, n_agents), F)
    taken, best = np.empty((n_steps, n_agents), F), np.empty((n_steps, n_agents), F)
    n_streams = n_agents if mixer == INDEPENDENT else 1
    value, bootstrap = np.empty((n_steps, n_streams), F), np.empty((n_steps, n_streams), F)
    slope = np.empty((n_steps, n_streams), F)
    of_agents, of_mixer = split_gradient(
        gradient, nets[0], mixers[0], obs.shape[3], batch.state.shape[2]
    )
    mixed = empty_mixed(mixers[0], n_steps if mixer == MIX else 0)
    for i in range(n_episodes):
        b, length = chunk.episodes[i], chunk.length[i]
        if length == 0:  # products need a step
            continue
        place = target_values.place[b]
        target_q = target_values.values[place : place + (length + 1) * n_agents * width]
        target_q = target_q.reshape((length + 1, n_agents, width))
        choose(chunk, i, batch, q, target_q, options.double, taken, best)
        if mixer == MIX:
            for net in (1, 0):  # the online network last: its layers are needed again
                mix(mixers[net], batch.state, net, b, taken if net == 0 else best, length, mixed)
                for t in range(length):
                    (value if net == 0 else bootstrap)[t, 0] = mixed.value[t]
        else:
            combine(best, length, bootstrap)
            combine(taken, length, value)
        errors(batch, b, length, length, value, bootstrap, options, slope, priority, sums)
        if mixer == MIX:
            unmix(mixers[0], batch.state, b, taken, length, mixed, slope, of_q[i], of_mixer)
        else:
            for t in range(length):
                for n in range(n_agents):
                    of_q[i, t, n] = slope[t, n if n_streams > 1 else 0]
    backward(nets[0], chunk, obs, last_action, batch.action, inputs, gates, of_q, of_agents)


@njit()
def evaluate_target(chunk, lengths, batch, agents, target_values):
    """Compute the target network's values of a chunk where they are not known."""
    n_agents, width, size = batch.obs.shape[2], len(agents.value_bias), agents.bias.shape[1]
    missing = np.empty(len(chunk.episodes), np.int64)
    n_missing = 0
    for b in chunk.episodes:
        if not target_values.known[b]:
            missing[n_missing] = b
            n_missing += 1
    if n_missing == 0:
        return
    part = make_chunk(missing[:n_missing], lengths, n_agents)
    q = np.empty((part.start[-1], width), F)
    inputs, gates = np.empty((part.start[1], 2, size), F), np.empty((part.start[1], 4, size), F)
    forward(agents, part, batch.obs, batch.last_action, inputs, gates, q)
    for i in range(n_missing):
        at = target_values.place[missing[i]]
        for t in range(part.length[i] + 1):
            for n in range(n_agents):
                row = q[part.start[t] + i * n_agents + n]
                to = target_values.values[at : at + width]
                for a in range(width):
                    to[a] = row[a]
                at += width


@njit()
def choose(chunk, i, batch, q, target_q, double, taken, best):
    """Of episode i of a chunk the values of the actions taken, and of the best next actions."""
    b, n_agents = chunk.episodes[i], batch.action.shape[2]
    for t in range(chunk.length[i]):
        row, following = chunk.start[t] + i * n_agents, chunk.start[t + 1] + i * n_agents
        for n in range(n_agents):
            taken[t, n] = q[row + n, batch.action[t, b, n]]
            chooser = q[following + n] if double else target_q[t + 1, n]
            next_action = best_action(chooser, batch.avail_actions[t + 1, b, n])
            best[t, n] = target_q[t + 1, n, next_action]


@njit()
def combine(q, n_steps, out):
    """Values [T, N] to streams: one of each agent, or the sum."""
    for t in range(n_steps):
        if out.shape[1] > 1:
            out[t] = q[t]
        else:
            sum_ = q[t, 0]
            for n in range(1, q.shape[1]):
                sum_ += q[t, n]
            out[t, 0] = sum_


@njit()
def split_gradient(flat, agents, mixer, n_obs, n_state):
    """``AgentGradient`` and ``MixerGradient`` in an array of ``n_weights`` elements."""
    of_agents, rest = agent_gradient(flat, agents, n_obs)
    return of_agents, mixer_gradient(rest, mixer, n_state)


def n_weights(agents, mixer, n_obs, n_state):
    """Elements of the gradients by ``AgentArrays`` and ``MixerArrays``."""
    size, width = agents.bias.shape[1], len(agents.value_bias)
    n_rows = n_obs + len(agents.actions) + len(agents.agents) + width + 6 * size + 4
    total, units, n_one = len(mixer.first_bias), len(mixer.value), len(mixer.one_bias)
    n_mixer = (n_state * total + total) + (n_one + units) * (total // 2 - units + 1)
    return n_rows * size + width + n_mixer + units + min(units, 1)
