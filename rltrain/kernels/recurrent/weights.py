"""Weights of recurrent teams for the compiled learning step, and their gradients back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network.gru import GRUAgents
from rltrain.types import Model


class TeamWeights:
    """The weights of a model as the compiled learning step takes them; found in it once, because
    that takes longer than many of the step's parts.

    Args:
        model: whose they are.
    """

    def __init__(self, model: Model) -> None:
        agents, rest = cast(GRUAgents, model.agents), cast(GRUAgents, model.agents).input.rest
        self.agents, self.mixer = agent_weights(agents), mixer_weights(model.mixer)
        self.scale, self.n_inputs = np.float32(agents.input.scale), agents.input.dim
        self.last_action, self.agent_id = rest.last_action, rest.agent_id
        self.n, self._starts = 0, {}
        for parameter in model.parameters():
            self._starts[id(parameter)] = self.n
            self.n += parameter.numel()

    def prepared(self, n_agents: int, n_actions: int) -> tuple[Any, Any]:
        """``agents_kernel.Agents`` and ``mixing_kernel.Mixer``; empty arrays of other mixers
        than QMIX.
        """
        from rltrain.kernels.recurrent import mixing_kernel
        from rltrain.kernels.recurrent import weights_kernel as kernel

        n_last, n_ids = self.last_action * n_actions, self.agent_id * n_agents
        sizes = self.n_inputs - n_last - n_ids, n_last, n_ids, n_agents
        agents = kernel.prepare_agents(*arrays(self.agents), sizes, self.scale)
        if self.mixer:
            mixer = kernel.prepare_mixer(*pairs(arrays(self.mixer)))
        else:
            nothing = np.zeros(0, np.float32)
            mixer = mixing_kernel.Mixer(*[nothing] * len(mixing_kernel.Mixer._fields))
        return agents, mixer

    def gradient(self, gradients: tuple[Any, Any]) -> np.ndarray:
        """The sum over shares, as the model's parameters follow each other."""
        from rltrain.kernels.recurrent import weights_kernel as kernel

        flat = np.zeros(self.n, np.float32)
        n_last, n_ids = gradients[0].actions.shape[1] - 1, gradients[0].agents.shape[1]
        weights = self._parts(flat, self.agents)
        kernel.write_agents(gradients[0], self.scale, *weights, n_last, n_ids * self.agent_id)
        if self.mixer:
            kernel.write_mixer(gradients[1], *pairs(self._parts(flat, self.mixer)))
        return flat

    def _parts(self, flat: np.ndarray, parameters: list[Tensor]) -> list[np.ndarray]:
        """Where the gradients of some parameters belong."""
        starts = [self._starts[id(parameter)] for parameter in parameters]
        return [
            flat[start : start + parameter.numel()].reshape(parameter.shape)
            for start, parameter in zip(starts, parameters, strict=True)
        ]


def agent_weights(agents: GRUAgents) -> list[Tensor]:
    """In the order of ``weights_kernel.prepare_agents``."""
    fc1, cell, fc2 = agents.fc1, agents.rnn, agents.fc2
    recurrent = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    return [fc1.weight, fc1.bias, *recurrent, fc2.weight, fc2.bias]


def mixer_weights(mixer: nn.Module) -> list[Tensor]:
    """In the order of ``weights_kernel.prepare_mixer``, weight and bias in turn; none of
    other mixers than QMIX.
    """
    if not isinstance(mixer, QMix):
        return []
    networks = cast(list[nn.Sequential], [mixer.hyper_w_1, mixer.hyper_w_final, mixer.V])
    layers = [layer for network in networks for layer in (network[0], network[2])]
    linear = cast(list[nn.Linear], [*layers, mixer.hyper_b_1])
    return [x for layer in linear for x in (layer.weight, layer.bias)]


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
        hyper, sizes = mixer.hyper_w_1, (mixer.n_agents * embed, embed, 1)
        hidden = len(next(hyper.parameters(), ()))
        layers["hyper_b_1"] = mixer.hyper_b_1, embed, n_state
        names = "hyper_w_1", "hyper_w_final", "V"
        for name, n_hidden, n_out in zip(names, (hidden, hidden, embed), sizes, strict=True):
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
    return None


def arrays(parameters: list[Tensor]) -> list[np.ndarray]:
    """Their present values."""
    return [parameter.detach().numpy() for parameter in parameters]


def pairs(arrays: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases in turn as pairs."""
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def empty_sums(agents: Any, mixer: Any, n_shares: int, n_obs: int, n_state: int) -> tuple[Any, Any]:
    """Arrays for the gradients of shares."""
    from rltrain.kernels.recurrent import agents_kernel, mixing_kernel

    size, width = agents.bias.shape[1], len(mixer.value)
    total = len(mixer.first_bias)
    inner = total // 2 - width

    def empty(*shape: int) -> np.ndarray:
        return np.empty((n_shares, *shape), np.float32)

    of_agents = agents_kernel.AgentGradient(
        obs=empty(n_obs, size),
        actions=empty(*agents.actions.shape),
        agents=empty(*agents.agents.shape),
        reset_update=empty(2 * size, 2 * size),
        new=empty(size, size),
        recurrent=empty(size, size),
        bias=empty(4, size),
        value_bias=empty(len(agents.value_bias)),
        value_rows=empty(*agents.value_rows.shape),
    )
    of_mixer = mixing_kernel.MixerGradient(
        first=empty(n_state, total),
        first_bias=empty(total),
        one=empty(len(mixer.one_bias), inner),
        one_bias=empty(len(mixer.one_bias)),
        two=empty(width, inner),
        two_bias=empty(width),
        value=empty(width),
        value_bias=empty(len(mixer.value_bias)),
    )
    return of_agents, of_mixer
