"""Weights of PyMARL's networks, in memory, for a learner of the same algorithm, and what to type
where they do not fit.

Names are those of PyMARL, EPyMARL, PyMARL2 and the authors of weighted QMIX and QPLEX: agents
``fc1``, ``rnn``, ``fc2``; mixers ``hyper_w_1``, ``hyper_w_final``, ``hyper_b_1``, ``V`` (PyMARL2:
``hyper_w1``, ``hyper_w2``, ``hyper_b1``, ``hyper_b2``); QTRAN ``Q``, ``V``, ``action_encoding``;
QPLEX ``si_weight``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from rltrain.algo.learner import Learner
from rltrain.algo.network.grouped import GroupedAgents
from rltrain.interfaces import Model
from rltrain.migrate.pymarl_files import PymarlFiles
from rltrain.types import EnvSpec

Weights = Mapping[str, Tensor]
Shapes = Mapping[str, Sequence[int]]
FEED_FORWARD = ("torso.0", "torso.2", "head.advantage.0")
"""The layers of agents without memory (fc1, rnn, fc2 in EPyMARL with use_rnn: False; fc1, fc2, fc3
in PyMARL2), as ``algo/network=mlp`` calls them."""
RENAMED = {
    "constrant_value_layer.": "constant_layer.",
    "hyper_w1.": "hyper_w_1.",  # QMIX and agents of PyMARL2 (nmix.py, n_rnn_agent.py) from here on
    "hyper_b1.0.": "hyper_b_1.",
    "hyper_w2.": "hyper_w_final.",
    "hyper_b2.": "V.",
    "layer_norm.": "norm.",
}
"""Beginnings of theirs that are spelled differently here."""
ALGORITHMS = {
    "hyper_b_1": "qmix",
    "action_encoding": "qtran",
    "query_embedding_layers": "qatten",
    "attention_weight": "qplex_attention",
    "si_weight": "qplex",
}
"""The algorithm that a layer of ``mixer.th`` belongs to; the first one that is there."""


def load_pymarl(
    learner: Learner,
    agent: Weights,
    mixer: Weights | None = None,
    target_agent: Weights | None = None,
    target_mixer: Weights | None = None,
    central_agent: Weights | None = None,
    central_mixer: Weights | None = None,
    target_central_agent: Weights | None = None,
    target_central_mixer: Weights | None = None,
) -> None:
    """Put the weights of PyMARL's networks into a learner; all of them, or none if one is refused.

    Args:
        learner: of the same algorithm and sizes, such as ``make_learner(["algo=qmix", …])``.
        agent, mixer: name to tensor or array, as ``torch.load("agent.th")`` gives them; ``mixer``
            is None or empty for IQL and VDN, and holds QTRAN's joint networks for QTRAN. Networks
            of single agents (``agents.0.fc1.weight``, …) go to ``algo.network.groups`` of one
            agent each.
        target_agent, target_mixer: of the target networks; None: copies of the others.
        central_agent, central_mixer: of weighted QMIX's central networks, and of their targets.

    Raises:
        ValueError: names or shapes that are not those of the learner's networks; names them.
    """
    given = {"agent": (agent, target_agent), "mixer": (mixer or {}, target_mixer)}
    if central_agent is not None or central_mixer is not None:
        given["central_agent"] = central_agent or {}, target_central_agent
        given["central_mixer"] = central_mixer or {}, target_central_mixer
    online = {part: own for part, (own, _) in given.items()}
    target = {part: own if copy is None else copy for part, (own, copy) in given.items()}
    loads = []
    for model, parts, prefix in ((learner.online, online, ""), (learner.target, target, "target_")):
        modules = named_parts(model)
        problems = [
            f"{prefix}{part}: {problem}"
            for part in {**modules, **parts}
            for problem in differences(modules.get(part), parts.get(part, {}))
        ]
        if problems:
            raise ValueError(f"The weights do not fit the learner's networks. {' '.join(problems)}")
        loads += [(modules[p], renamed(parts[p], modules[p])) for p in parts if p in modules]
    for module, weights in loads:
        module.load_state_dict(weights)


def named_parts(model: Model) -> dict[str, nn.Module]:
    """The networks of a model by PyMARL's names; QTRAN's critic is its mixer."""
    parts = {"agent": model.agents, "mixer": model.mixer}
    critic = model.critic
    if critic is None:
        return parts
    central = dict(critic.named_children())
    if {"agents", "mixer"} <= central.keys():
        return {**parts, "central_agent": central["agents"], "central_mixer": central["mixer"]}
    return {**parts, "mixer": critic}


def differences(module: nn.Module | None, weights: Weights) -> Iterator[str]:
    """The problems with the names and shapes of one network's weights."""
    ours = {} if module is None else {n: list(t.shape) for n, t in module.state_dict().items()}
    theirs = {name: list(tensor.shape) for name, tensor in renamed(weights, module).items()}
    for name in sorted({**ours, **theirs}):
        if name not in theirs:
            yield f"{name} is missing."
        elif name not in ours:
            yield f"{name} is not expected."
        elif ours[name] != theirs[name]:
            yield f"{name}: expected {ours[name]}, got {theirs[name]}."


def renamed(weights: Weights, module: nn.Module | None = None) -> dict[str, Tensor]:
    """Tensors by the names of ``module``, the network they are for."""
    single = by_agent(weights)
    if single:
        groups = module.members if isinstance(module, GroupedAgents) else ()
        places = {int(group): i for i, group in enumerate(groups) if len(group) == 1}
        return {
            f"networks.{places.get(agent, agent)}.{name}": tensor
            for agent, own in single.items()
            for name, tensor in renamed(own).items()
        }
    layers = dict(RENAMED)
    if "fc1.weight" in weights and "rnn.weight_ih" not in weights:  # agents without memory
        numbered = dict.fromkeys(name.partition(".")[0] for name in weights)
        layers |= {f"{a}.": f"{b}." for a, b in zip(numbered, FEED_FORWARD, strict=False)}
    ours = {}
    for name, value in weights.items():
        theirs = next((beginning for beginning in layers if name.startswith(beginning)), "")
        ours[layers.get(theirs, "") + name.removeprefix(theirs)] = torch.as_tensor(value)
    return ours


def by_agent(weights: Weights) -> dict[int, dict[str, Tensor]]:
    """The weights of each agent's own network (EPyMARL's ``mac: non_shared_mac``), by the agent's
    number; empty if all agents share one.
    """
    networks: dict[int, dict[str, Tensor]] = {}
    for name, value in weights.items():
        if (own := re.fullmatch(r"agents\.(\d+)\.(.+)", name)) is not None:
            networks.setdefault(int(own[1]), {})[own[2]] = value
    return networks


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
