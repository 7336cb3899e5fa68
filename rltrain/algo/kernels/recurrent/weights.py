"""Weights of recurrent teams for the compiled learning step, and their gradients back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from torch import Tensor, nn

from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network.gru import GRUAgents
from rltrain.types import Batch, Model


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


def prepare_agents(agents: GRUAgents, batch: Batch) -> Any:
    """``agents_kernel.Agents``."""
    from rltrain.algo.kernels.recurrent import weights_kernel

    rest = agents.input.rest
    n_agents, n_actions = batch.avail_actions.shape[2:]
    n_last, n_ids = rest.last_action * n_actions, rest.agent_id * n_agents
    weights = [weight.detach().numpy() for weight in agent_weights(agents)]
    sizes = agents.input.dim - n_last - n_ids, n_last, n_ids, n_agents
    return weights_kernel.prepare_agents(*weights, sizes, np.float32(agents.input.scale))


def prepare_mixer(mixer: nn.Module) -> Any:
    """``mixing_kernel.Mixer``; empty arrays of other mixers than QMIX."""
    from rltrain.algo.kernels.recurrent import mixing_kernel, weights_kernel

    if type(mixer) is not QMix:
        return mixing_kernel.Mixer(*[np.zeros(0, np.float32)] * len(mixing_kernel.Mixer._fields))
    return weights_kernel.prepare_mixer(*pairs([x.detach().numpy() for x in mixer_weights(mixer)]))


def pairs(arrays: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases in turn as pairs."""
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def empty_sums(agents: Any, mixer: Any, n_shares: int, n_obs: int) -> tuple[Any, Any]:
    """Arrays for the gradients of shares."""
    from rltrain.algo.kernels.recurrent import agents_kernel, mixing_kernel

    size, width = agents.bias.shape[1], len(mixer.value)
    total = len(mixer.first_bias)
    n_state, inner = len(mixer.first) // max(total, 1), total // 2 - width

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


def flat_gradient(model: Model, gradients: tuple[Any, Any]) -> np.ndarray:
    """The sum over shares, as the model's parameters follow each other."""
    from rltrain.algo.kernels.recurrent import weights_kernel as kernel

    parameters = list(model.parameters())
    flat = np.zeros(sum(parameter.numel() for parameter in parameters), np.float32)
    parts = np.split(flat, np.cumsum([parameter.numel() for parameter in parameters])[:-1])
    of = {id(p): part.reshape(p.shape) for p, part in zip(parameters, parts, strict=True)}
    agents = cast(GRUAgents, model.agents)
    rest, scale = agents.input.rest, np.float32(agents.input.scale)
    n_last, n_ids = gradients[0].actions.shape[1] - 1, gradients[0].agents.shape[1]
    weights = [of[id(weight)] for weight in agent_weights(agents)]
    kernel.write_agents(gradients[0], scale, *weights, n_last, n_ids * rest.agent_id)
    if isinstance(model.mixer, QMix):
        kernel.write_mixer(gradients[1], *pairs([of[id(x)] for x in mixer_weights(model.mixer)]))
    return flat
