"""Weights of PyMARL's networks, in memory, for a learner of the same algorithm.

Names are those of PyMARL, EPyMARL, PyMARL2 and the authors of weighted QMIX and QPLEX: agents
``fc1``, ``rnn``, ``fc2``; mixers ``hyper_w_1``, ``hyper_w_final``, ``hyper_b_1``, ``V`` (PyMARL2:
``hyper_w1``, ``hyper_w2``, ``hyper_b1``, ``hyper_b2``); QTRAN ``Q``, ``V``, ``action_encoding``;
QPLEX ``si_weight``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from rltrain.algo.learner import Learner
from rltrain.algo.network.grouped import GroupedAgents
from rltrain.interfaces import Model

Weights = Mapping[str, Tensor]
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
