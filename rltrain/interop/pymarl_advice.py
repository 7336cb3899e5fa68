"""What to type where the networks of a PyMARL checkpoint do not fit those of a run."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rltrain.interop.pymarl import by_agent, renamed
from rltrain.interop.pymarl_files import PymarlFiles
from rltrain.types import EnvSpec

ALGORITHMS = {"hyper_b_1": "qmix", "action_encoding": "qtran", "si_weight": "qplex"}
"""The algorithm that a layer of ``mixer.th`` belongs to."""


def advice(files: PymarlFiles, own: Mapping[str, Any], spec: EnvSpec) -> Iterator[str]:
    """The overrides with which the networks would fit, as far as sizes tell."""
    single = by_agent(files.agent)
    agent = single.get(0, files.agent)
    weights = [
        tensor for name, tensor in agent.items() if re.fullmatch(r"(fc\d|rnn)\.weight", name)
    ]
    memory = "rnn.weight_ih" in agent
    if not weights or len(weights[-1]) != spec.n_actions or len(single) not in (0, spec.n_agents):
        return
    networks = {name.split(".")[2] for name in own if name.startswith("agents.networks.")}
    if len(networks) != len(single):
        groups = ",".join(f"[{agent}]" for agent in single)
        yield f"algo.network.groups={f'[{groups}]' if single else 'null'}"
    prefix = "agents.networks.0." if networks else "agents."
    here = own.get(prefix + ("fc1.weight" if memory else "torso.0.weight"))
    if here is None:
        yield f"algo/network={'gru' if memory else 'mlp'}"
    widths = [len(tensor) for tensor in weights[:-1]]
    if memory and (here is None or here[0] != widths[0]):
        yield f"algo.network.hidden_dim={widths[0]}"
    elif not memory and (here is None or here[0] != widths[0]):
        yield f"algo.network.hidden_sizes=[{','.join(map(str, widths))}]"
    normalizes = "layer_norm.weight" in agent
    if memory and normalizes != (prefix + "norm.weight" in own):
        yield f"algo.network.layer_norm={str(normalizes).lower()}"
    inputs, n_obs = weights[0].shape[1], math.prod(spec.obs_shape) * spec.frame_stack
    if here is None or here[1] != inputs:
        choices = itertools.product((True, False), repeat=2)
        n_ids = 0 if single else spec.n_agents  # a group of one agent needs no id
        sizes = {(a, i): n_obs + a * spec.n_actions + i * n_ids for a, i in choices}
        fitting = [flags for flags, size in sizes.items() if size == inputs]
        for last_action, agent_id in fitting[:1]:
            yield f"algo.network.last_action={str(last_action).lower()}"
            if not single:
                yield f"algo.network.agent_id={str(agent_id).lower()}"
    yield from mixer_advice(files, own)


def mixer_advice(files: PymarlFiles, own: Mapping[str, Any]) -> Iterator[str]:
    """The same for the mixer."""
    mixes = any(name.startswith(("mixer.", "critic.")) for name in own)
    if not files.mixer and mixes:
        yield "algo=vdn (or algo=iql)"
    mixer = renamed(files.mixer)
    layers = {name.partition(".")[0] for name in mixer}
    for algo in (algo for layer, algo in ALGORITHMS.items() if layer in layers and not mixes):
        yield f"algo={algo}"
    if "hyper_b_1.weight" not in mixer or not mixes:
        return
    theirs = {f"mixer.{name}": list(tensor.shape) for name, tensor in mixer.items()}
    first, embed = "mixer.hyper_w_1.0.weight", "mixer.hyper_b_1.weight"
    if own.get(embed) != theirs[embed]:
        yield f"algo.mixer.embed_dim={theirs[embed][0]}"
    if (first in own) != (first in theirs):
        yield f"algo.mixer.hypernet_layers={2 if first in theirs else 1}"
    if first in theirs and own.get(first) != theirs[first]:
        yield f"algo.mixer.hypernet_dim={theirs[first][0]}"
