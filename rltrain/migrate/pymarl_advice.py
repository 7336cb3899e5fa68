"""Advice where the networks of a PyMARL checkpoint do not fit those of a run."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rltrain.migrate.pymarl import by_agent, renamed
from rltrain.migrate.pymarl_files import PymarlFiles
from rltrain.types import EnvSpec

Shapes = Mapping[str, Sequence[int]]
ALGORITHMS = {
    "hyper_b_1": "qmix",
    "action_encoding": "qtran",
    "query_embedding_layers": "qatten",
    "attention_weight": "qplex_attention",
    "si_weight": "qplex",
}
"""The algorithm that a layer of ``mixer.th`` belongs to; the first one that is there."""


def advice(files: PymarlFiles, own: Shapes, spec: EnvSpec) -> Iterator[str]:
    """The overrides with which the networks would fit, as far as sizes tell.

    Args:
        files: the checkpoint.
        own: of the tensors of the run's online networks, by name.
        spec: sizes of the run's environment.
    """
    single = by_agent(files.agent)
    agent = single.get(0, files.agent)
    weights = [x for name, x in agent.items() if re.fullmatch(r"(fc\d|rnn)\.weight", name)]
    memory = "rnn.weight_ih" in agent
    known = len(weights) > 1 and all(x.ndim == 2 for x in weights)
    if not known or len(weights[-1]) != spec.n_actions or len(single) not in (0, spec.n_agents):
        return
    networks = {name.split(".")[2] for name in own if name.startswith("agents.networks.")}
    if len(networks) != len(single):
        groups = ",".join(f"[{agent}]" for agent in single)
        yield f"algo.network.groups={f'[{groups}]' if single else 'null'}"
    here = below("agents.networks.0." if networks else "agents.", own)
    first = here.get("fc1.weight" if memory else "torso.0.weight")
    if not same_kind(here, memory):
        yield f"algo/network={'gru' if memory else 'mlp'}"
    widths = [len(tensor) for tensor in weights[:-1]]
    if memory and (first is None or first[0] != widths[0]):
        yield f"algo.network.hidden_dim={widths[0]}"
    layers = [shape[0] for name, shape in here.items() if re.match(r"torso\.\d+\.weight", name)]
    if not memory and layers != widths:
        yield f"algo.network.hidden_sizes=[{','.join(map(str, widths))}]"
    normalizes = "layer_norm.weight" in agent
    if memory and normalizes != ("norm.weight" in here):
        yield f"algo.network.layer_norm={str(normalizes).lower()}"
    inputs, n_obs = weights[0].shape[1], math.prod(spec.obs_shape) * spec.frame_stack
    if first is None or first[1] != inputs:
        choices = itertools.product((True, False), repeat=2)
        n_ids = 0 if single else spec.n_agents  # a group of one agent needs no id
        sizes = {(a, i): n_obs + a * spec.n_actions + i * n_ids for a, i in choices}
        fitting = [flags for flags, size in sizes.items() if size == inputs]
        for last_action, agent_id in fitting[:1]:
            yield f"algo.network.last_action={str(last_action).lower()}"
            if not single:
                yield f"algo.network.agent_id={str(agent_id).lower()}"
    yield from mixer_advice(files, own)


def below(prefix: str, own: Shapes) -> Shapes:
    """The names that begin with ``prefix``, without it."""
    return {n.removeprefix(prefix): shape for n, shape in own.items() if n.startswith(prefix)}


def same_kind(agent: Shapes, memory: bool) -> bool:
    """Whether an agent of the run has a GRU cell, or is without memory, as that of PyMARL."""
    if not memory:
        return "torso.0.weight" in agent
    if not {"fc1.weight", "rnn.weight_ih", "fc2.weight"} <= agent.keys():
        return False
    gates = agent["rnn.weight_ih"][0] // agent["rnn.weight_ih"][1]
    return gates == 3 and not any(name.startswith("hyper_") for name in agent)


def mixer_advice(files: PymarlFiles, own: Shapes) -> Iterator[str]:
    """Advice on the mixer."""
    here = {**below("mixer.", own), **below("critic.", own)}
    there = {name: list(x.shape) for name, x in renamed(files.mixer).items() if x.ndim}
    algo = find_algorithm(there)
    if here and not there:
        yield "algo=vdn (or algo=iql)"
    elif algo not in (None, find_algorithm(here)):
        yield f"algo={algo}"
    else:
        known = dict(mixer_sizes(here))
        for name, size in mixer_sizes(there):
            if known.get(name) != size:
                yield f"algo.mixer.{name}={size}"


def find_algorithm(names: Iterable[str]) -> str | None:
    """The algorithm of a mixer with tensors of these names; None: none that is known."""
    layers = {name.partition(".")[0] for name in names}
    return next((algo for layer, algo in ALGORITHMS.items() if layer in layers), None)


def mixer_sizes(mixer: Shapes) -> Iterator[tuple[str, int]]:
    """Keys of ``algo.mixer`` and their values, of QMIX and QPLEX; none of others."""
    if "hyper_b_1.weight" in mixer:
        yield "embed_dim", mixer["hyper_b_1.weight"][0]
        deep = "hyper_w_1.0.weight" in mixer
        yield "hypernet_layers", 2 if deep else 1
        if deep:
            yield "hypernet_dim", mixer["hyper_w_1.0.weight"][0]
    keys = below("si_weight.key_extractors.", mixer)
    weights = [name for name in keys if re.fullmatch(r"0\.(\d\.)?weight", name)]
    if not weights or "hyper_w_final.0.weight" not in mixer:
        return
    yield "hypernet_dim", mixer["hyper_w_final.0.weight"][0]
    yield "kernels", len({name.partition(".")[0] for name in keys})
    yield "kernel_layers", len(weights)
    if len(weights) > 1:
        yield "kernel_dim", keys[weights[0]][0]
