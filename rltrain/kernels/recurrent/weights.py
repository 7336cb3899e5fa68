"""Weights of recurrent teams for the compiled learning step, and their gradients back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard, cast

import numpy as np
from torch import Tensor, nn

from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network.agent_input import ActionAndAgent, AgentInput
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.packing import PackedGRU
from rltrain.interfaces import Model


class TeamWeights:
    """The weights of a model as the compiled learning step takes them; found in it once, because
    that takes longer than many of the step's parts.

    Args:
        model: whose they are.
    """

    def __init__(self, model: Model) -> None:
        agents, rest = cast(GRUAgents, model.agents), cast(GRUAgents, model.agents).input.rest
        self.agents, self.mixer = agent_weights(agents), mixer_weights(model.mixer)
        self.input, self.n_inputs = agents.input, agents.input.dim
        self.last_action, self.agent_id = rest.last_action, rest.agent_id
        self.n, self._starts = 0, {}
        for parameter in model.parameters():
            self._starts[id(parameter)] = self.n
            self.n += parameter.numel()

    @property
    def scale(self) -> np.float32:
        """Scale of observations."""
        return np.float32(self.input.scale)

    def fits(self, batch: Any) -> bool:
        """Whether ``BatchArrays`` have the sizes of the model."""
        n_agents, n_actions = batch.avail_actions.shape[2:]
        n_more = self.last_action * n_actions + self.agent_id * n_agents
        sizes = [(n_actions, len(self.agents[-1])), (batch.obs.shape[3] + n_more, self.n_inputs)]
        if self.mixer:
            sizes.append((batch.state.shape[2], self.mixer[0].shape[1]))
            sizes.append((n_agents * len(self.mixer[-1]), len(self.mixer[3])))
        return all(given == expected for given, expected in sizes)

    def prepared(self, n_agents: int, n_actions: int) -> tuple[Any, Any]:
        """``AgentArrays`` and ``MixerArrays``; empty arrays of other mixers than QMIX."""
        from rltrain.kernels.recurrent.mixing_kernel import MixerArrays

        n_last, n_ids = self.last_action * n_actions, self.agent_id * n_agents
        sizes = self.n_inputs - n_last - n_ids, n_last, n_ids, n_agents
        agents = prepare_agents(arrays(self.agents), sizes, self.scale)
        if self.mixer:
            return agents, prepare_mixer(arrays(self.mixer))
        nothing = np.zeros(0, np.float32)
        return agents, MixerArrays(*[nothing] * len(MixerArrays._fields))

    def gradient(self, agents: object, mixer: object) -> np.ndarray:
        """``AgentGradient`` and ``MixerGradient`` as the model's parameters follow each other."""
        flat = np.zeros(self.n, np.float32)
        write_agents(agents, self._parts(flat, self.agents), self.scale, self.agent_id)
        if self.mixer:
            write_mixer(mixer, self._parts(flat, self.mixer))
        return flat

    def _parts(self, flat: np.ndarray, parameters: list[Tensor]) -> list[np.ndarray]:
        """Where the gradients of some parameters belong."""
        starts = [self._starts[id(parameter)] for parameter in parameters]
        return [
            flat[start : start + parameter.numel()].reshape(parameter.shape)
            for start, parameter in zip(starts, parameters, strict=True)
        ]


def recurrent_only(agents: nn.Module) -> TypeGuard[GRUAgents]:
    """Whether agents are a linear layer, a GRU cell and a linear layer."""
    if type(agents) is not GRUAgents:
        return False
    if agents.norm is not None or agents.head is not None or agents.input.norm is not None:
        return False
    parts = agents.fc1, agents.rnn, agents.fc2, agents.input, agents.input.rest
    kinds = nn.Linear, PackedGRU, nn.Linear, AgentInput, ActionAndAgent
    return all(type(x) is kind for x, kind in zip(parts, kinds, strict=True))


def agent_weights(agents: GRUAgents) -> list[Tensor]:
    """Weights and biases of a linear layer, a GRU cell and a linear layer."""
    fc1, cell, fc2 = agents.fc1, agents.rnn, agents.fc2
    recurrent = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    return [fc1.weight, fc1.bias, *recurrent, fc2.weight, fc2.bias]


def mixer_weights(mixer: nn.Module) -> list[Tensor]:
    """Weights and biases of three networks of two layers, and of one layer; none of other mixers
    than QMIX.
    """
    if not isinstance(mixer, QMix):
        return []
    networks = cast(list[nn.Sequential], [mixer.hyper_w_1, mixer.hyper_w_final, mixer.V])
    layers = [layer for network in networks for layer in (network[0], network[2])]
    linear = cast(list[nn.Linear], [*layers, mixer.hyper_b_1])
    return [x for layer in linear for x in (layer.weight, layer.bias)]


def prepare_agents(
    weights: Sequence[np.ndarray], sizes: tuple[int, int, int, int], scale: np.float32
) -> Any:
    """``AgentArrays`` of ``agent_weights``.

    Args:
        sizes: O, previous actions and agent ids among the inputs (0 = none of them), agents.
        scale: of observations.
    """
    from rltrain.kernels.arithmetic.tile_kernel import packed, padded
    from rltrain.kernels.recurrent.agents_kernel import AgentArrays

    w_in, b_in, w_ih, w_hh, b_ih, b_hh, w_out, b_out = weights
    n_obs, n_last, n_ids, n_agents = sizes
    n, n_actions = w_hh.shape[1], len(b_out)
    size, width = padded(n), padded(n_actions)
    obs, actions, agents = zeros(n_obs, size), zeros(1 + n_last, size), zeros(n_agents, size)
    np.multiply(w_in[:, :n_obs].T, scale, out=obs[:, :n])
    actions[1:, :n] = w_in[:, n_obs : n_obs + n_last].T
    agents[:, :n] = b_in + w_in[:, n_obs + n_last :].T if n_ids else b_in
    from_input, from_state = (w.reshape(3, n, n) for w in (w_ih, w_hh))
    of_input, of_state = (b.reshape(3, n) for b in (b_ih, b_hh))
    both, bias = zeros(2, size, 2, size), zeros(4, size)
    both[0, :n, :, :n] = from_input[:2].transpose(2, 0, 1)
    both[1, :n, :, :n] = from_state[:2].transpose(2, 0, 1)
    bias[:2, :n] = of_input[:2] + of_state[:2]
    bias[2, :n], bias[3, :n] = of_state[2], of_input[2]
    to_state, to_input = zeros(3, size, size), zeros(3, size, size)
    to_state[:, :n, :n], to_input[1:, :n, :n] = from_state, from_input[:2]
    to_input[0, :n, :n] = from_input[2]
    new, recurrent = zeros(size, size), zeros(size, size)
    new[:n, :n], recurrent[:n, :n] = from_input[2].T, from_state[2].T
    rows, columns, value_bias = zeros(width, size), zeros(size, width), zeros(width)
    rows[:n_actions, :n], columns[:n, :n_actions] = w_out, w_out.T
    value_bias[:n_actions] = b_out
    return AgentArrays(
        packed(obs),
        actions,
        agents,
        packed(both.reshape(2 * size, 2 * size)),
        packed(new),
        packed(recurrent),
        bias,
        packed(columns),
        value_bias,
        rows,
        packed(to_state.reshape(3 * size, size)),
        packed(to_input.reshape(3 * size, size)),
    )


def write_agents(
    gradient: Any, weights: Sequence[np.ndarray], scale: np.float32, agent_id: bool
) -> None:
    """Write ``AgentGradient`` to the gradients of the weights that ``prepare_agents`` read."""
    w_in, b_in, w_ih, w_hh, b_ih, b_hh, w_out, b_out = weights
    n, n_obs, size = w_hh.shape[1], len(gradient.obs), gradient.bias.shape[1]
    n_last = len(gradient.actions) - 1
    b_in[:] = gradient.agents.sum(0)[:n]
    np.multiply(gradient.obs[:, :n].T, scale, out=w_in[:, :n_obs])
    w_in[:, n_obs : n_obs + n_last] = gradient.actions[1:, :n].T
    if agent_id:
        w_in[:, n_obs + n_last :] = gradient.agents[:, :n].T
    both = gradient.reset_update.reshape(2, size, 2, size)
    of_input, of_state = (w.reshape(3, n, n) for w in (w_ih, w_hh))
    of_input[:2], of_state[:2] = both[:, :n, 0, :n], both[:, :n, 1, :n]
    of_input[2], of_state[2] = gradient.new[:n, :n], gradient.recurrent[:n, :n]
    bias = gradient.bias[:, :n]
    b_ih[: 2 * n] = b_hh[: 2 * n] = bias[1:3].reshape(-1)
    b_ih[2 * n :], b_hh[2 * n :] = bias[0], bias[3]
    w_out[:], b_out[:] = gradient.value_rows[: len(b_out), :n], gradient.value_bias[: len(b_out)]


def prepare_mixer(weights: Sequence[np.ndarray]) -> Any:
    """``MixerArrays`` of ``mixer_weights``."""
    from rltrain.kernels.arithmetic.tile_kernel import packed, padded
    from rltrain.kernels.recurrent.mixing_kernel import MixerArrays

    one_1, one_2, two_1, two_2, value_1, value_2, bias_1 = pairs(weights)
    (n, state), units = one_1[0].shape, len(value_1[1])
    n_agents, size, width = len(one_2[1]) // units, padded(n), padded(units)
    total, at = 2 * (size + width), 0
    first, first_bias = zeros(state, total), zeros(total)
    for weight, bias in (one_1, two_1, value_1, bias_1):
        first[:, at : at + len(bias)], first_bias[at : at + len(bias)] = weight.T, bias
        at += padded(len(bias))
    one, one_bias = zeros(n_agents, width, size), zeros(n_agents, width)
    one[:, :units, :n] = one_2[0].reshape(n_agents, units, n)
    one_bias[:, :units] = one_2[1].reshape(n_agents, units)
    two, two_bias, value = zeros(width, size), zeros(width), zeros(width)
    two[:units, :n], two_bias[:units], value[:units] = two_2[0], two_2[1], value_2[0][0]
    one = one.reshape(-1, size)
    return MixerArrays(
        packed(first),
        first_bias,
        packed(np.ascontiguousarray(one.T)),
        one_bias.reshape(-1),
        packed(np.ascontiguousarray(two.T)),
        two_bias,
        value,
        value_2[1].copy(),
        packed(one),
        packed(two),
    )


def write_mixer(gradient: Any, weights: Sequence[np.ndarray]) -> None:
    """Write ``MixerGradient`` to the gradients of the weights that ``prepare_mixer`` read."""
    from rltrain.kernels.arithmetic.tile_kernel import padded

    one_1, one_2, two_1, two_2, value_1, value_2, bias_1 = pairs(weights)
    n, units, width = len(one_1[1]), len(value_1[1]), len(gradient.value)
    at = 0
    for weight, bias in (one_1, two_1, value_1, bias_1):
        weight[:] = gradient.first[:, at : at + len(bias)].T
        bias[:] = gradient.first_bias[at : at + len(bias)]
        at += padded(len(bias))
    one = gradient.one.reshape(-1, width, gradient.one.shape[1])
    one_2[0].reshape(-1, units, n)[:] = one[:, :units, :n]
    one_2[1].reshape(-1, units)[:] = gradient.one_bias.reshape(-1, width)[:, :units]
    two_2[0][:], two_2[1][:] = gradient.two[:units, :n], gradient.two_bias[:units]
    value_2[0][0], value_2[1][:] = gradient.value[:units], gradient.value_bias


def zeros(*shape: int) -> np.ndarray:
    """Single precision."""
    return np.zeros(shape, np.float32)


def misfit(model: Model) -> str | None:
    """Why the kernels cannot read a model's weights: they compute two layers per hyper-network, and
    look at no bounds. None if they can.
    """
    agents, mixer = cast(GRUAgents, model.agents), model.mixer
    width, n_actions, n_inputs = agents.width, len(agents.fc2.weight), agents.input.dim
    layers: dict[str, tuple[nn.Module, int, int]] = {
        "fc1": (agents.fc1, width, n_inputs),
        "fc2": (agents.fc2, n_actions, width),
    }
    if isinstance(mixer, QMix):
        embed, n_state = mixer.embed_dim, mixer.hyper_b_1.in_features
        hidden, n_one = len(next(mixer.hyper_w_1.parameters(), ())), mixer.n_agents * embed
        layers["hyper_b_1"] = mixer.hyper_b_1, embed, n_state
        sizes = {"hyper_w_1": (hidden, n_one), "hyper_w_final": (hidden, embed), "V": (embed, 1)}
        for name, (n_hidden, n_out) in sizes.items():
            network = getattr(mixer, name)
            if [type(x) for x in network.children()] != [nn.Linear, nn.ReLU, nn.Linear]:
                return f"QMix.{name} is not Linear, ReLU, Linear"
            layers[f"{name}.0"] = network[0], n_hidden, n_state
            layers[f"{name}.2"] = network[2], n_out, n_hidden
    expected: dict[str, tuple[Any, tuple[int, ...]]] = {}
    for name, (layer, n_out, n_in) in layers.items():
        expected |= {f"{name}.weight": (layer, (n_out, n_in)), f"{name}.bias": (layer, (n_out,))}
    for part in ("ih", "hh"):
        expected[f"rnn.weight_{part}"] = agents.rnn, (3 * width, width)
        expected[f"rnn.bias_{part}"] = agents.rnn, (3 * width,)
    for name, (layer, shape) in expected.items():
        weight = getattr(layer, name.rpartition(".")[2], None)
        got = None if weight is None else tuple(weight.shape)
        if got != shape:
            return f"{name} has shape {got}, compiled code expects {shape}"
    weights = [*agent_weights(agents), *mixer_weights(mixer)]
    return "layers share weights" if len({*map(id, weights)}) < len(weights) else None


def arrays(parameters: list[Tensor]) -> list[np.ndarray]:
    """Their current values."""
    return [parameter.detach().numpy() for parameter in parameters]


def pairs(arrays: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases in turn as pairs."""
    return list(zip(arrays[::2], arrays[1::2], strict=True))
