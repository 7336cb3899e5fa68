"""Networks, loss and optimizer, joined into a learner, and networks that act as a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from rltrain import kernels
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.learner import Learner
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.network.grouped import GroupedAgents
from rltrain.algo.normalization import RewardNorm
from rltrain.algo.own_checks import require_mixer, require_step, require_unroll
from rltrain.algo.policy import Policy
from rltrain.common import checkpoint
from rltrain.common.checkpoint.fit import check_fits
from rltrain.common.conformance import Interface, conform, require_savable
from rltrain.common.seeding import NETWORK_STREAM, seed_key
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError
from rltrain.hardware.device import available_cores, seed_networks
from rltrain.interfaces import Agents, Critic, Loss, Mixer, Model, Optimizer, TargetUpdates
from rltrain.kernels.module_watch import forget_reasons
from rltrain.types import EnvSpec, module_device


@torch.inference_mode(False)  # which an environment may have left on
def build_learner(settings: Settings, spec: EnvSpec, device: torch.device) -> Learner:
    """Model, loss, optimizer and target update, joined."""
    forget_reasons()
    nodes, algo = settings.nodes, settings.learning
    model = build_model(settings, spec, device)
    target_update = nodes["algo.target_update"].build()
    conform(target_update, TargetUpdates, "algo.target_update")

    def optimizer(params: list[nn.Parameter]) -> torch.optim.Optimizer:
        built: torch.optim.Optimizer = nodes["algo.optimizer"].build(params=params)
        conform(built, Optimizer, "algo.optimizer")
        return built

    learner = Learner(
        spec=spec,
        model=model,
        loss=build_loss(settings, spec, model),
        optimizer=optimizer,
        max_grad_norm=algo.max_grad_norm,
        lr_factors=algo.lr_factors,
        reward_norm=algo.reward_norm
        and RewardNorm(kind=algo.reward_norm, n_rewards=spec.n_rewards, device=device),
        target_update=target_update,
    )
    kernels.compile_learner(learner, settings.hardware.kernels)
    return learner


def build_model(settings: Settings, spec: EnvSpec, device: torch.device) -> Model:
    """Agents, mixer and critic with their own seeded initialization, on their device.

    Raises:
        ValueError: there is nothing to learn in them.
        UsageError: the weights of the run that is resumed have other sizes.
    """
    if settings.resumes_from is not None:
        require_saved_sizes(settings, spec, settings.resumes_from)
    with seed_networks(seed_key(settings.run.seed, NETWORK_STREAM)):
        agents = build_agents(settings, spec)
        if not settings.nodes["algo.network"].shipped:
            require_unroll(agents, spec)
        node = settings.nodes["algo.mixer"]
        mixer = module(node.build(spec=spec), Mixer, "algo.mixer")
        if not node.shipped:
            require_mixer(mixer, spec)
        critic = settings.nodes["algo.critic"].build(
            spec=spec,
            make_agents=partial(build_agents, settings, spec),
            hidden_dim=agents.hidden_dim,
        )
    if critic is not None:
        critic = module(critic, Critic, "algo.critic")
    model = Model(agents, mixer, critic)
    if not any(True for _ in model.parameters()):
        raise ValueError(
            f"{type(agents).__name__} (algo.network) and {type(mixer).__name__} (algo.mixer) have "
            "no parameters, so nothing can be learned."
        )
    return model.to(device)


def require_saved_sizes(settings: Settings, spec: EnvSpec, checkpoints: Path) -> None:
    """Compare networks with the weights of a run, whose configuration may be a stranger's, before
    there is memory for them; UsageError where their sizes differ.
    """
    if all(settings.nodes[f"algo.{part}"].shipped for part in ("network", "mixer", "critic")):
        with torch.device("meta") as nowhere:
            model = build_model(replace(settings, resumes_from=None), spec, nowhere)
        have = {"online": model.state_dict()}
        for folder in (checkpoints / str(step) for step in checkpoint.list_steps(checkpoints)):
            with suppress(CheckpointError):  # the restore reports it
                check_fits(have, checkpoint.read_networks(folder), folder, about(settings, spec))
                return


def build_agents(settings: Settings, spec: EnvSpec) -> Agents:
    """The network that acts.

    Raises:
        ValueError: it lacks an attribute of agents, or cannot output the distribution.
    """
    whole = settings.nodes["algo.network"]
    groups = whole.kwargs.get("groups")
    node = replace(whole, kwargs={k: v for k, v in whole.kwargs.items() if k != "groups"})
    distribution = build_distribution(settings)

    def make(spec: EnvSpec) -> Agents:
        built = node.build(spec=spec, distribution=distribution)
        agents = module(built, Agents, "algo.network")
        if not node.shipped:
            require_step(agents, spec)
        return agents

    agents = make(spec)
    if groups is not None:
        agents = GroupedAgents(spec=spec, groups=groups, make=make)
    require_fit(
        "network",
        settings,
        agents=agents,
        distribution=distribution,
        asks=node.asks_for("distribution"),
    )
    if settings.hardware.kernels != "torch":
        from rltrain.kernels.compilation import announce_compilation

        announce_compilation()
    kernels.compile_agents(agents, settings.hardware.kernels)
    return agents


def build_policy(
    settings: Settings,
    agents: Agents,
    exploration: Exploration,
    spec: EnvSpec,
    n_envs: int,
    rng: np.random.Generator,
    *,
    noisy: bool = False,
) -> Policy:
    """A policy, which acts in compiled code if ``hardware.kernels`` says so."""
    policy = Policy(
        agents=agents, exploration=exploration, spec=spec, n_envs=n_envs, rng=rng, noisy=noisy
    )
    kernels.compile_policy(policy, settings.hardware.kernels)
    return policy


def build_distribution(settings: Settings) -> Any:
    """The distribution of returns that the network outputs."""
    return conform(settings.nodes["algo.distribution"].build(), Distribution, "algo.distribution")


def module(part: object, kind: type[Interface], name: str) -> Interface:
    """A part of a ``kind`` that has parameters of its own.

    Raises:
        ValueError: it is not a ``torch.nn.Module``, lacks something of its kind, the sizes of its
            weights are not known yet, or no checkpoint can hold them.
    """
    if not isinstance(part, nn.Module):
        raise ValueError(f"{type(part).__name__} ({name}): expected a torch.nn.Module.")
    if lazy := [n for n, p in part.named_parameters() if is_lazy(p)]:
        raise ValueError(
            f"{type(part).__name__} ({name}): the size of {lazy[0]} is not known before the first "
            "batch, as in nn.LazyLinear, but the target network is a copy that is made earlier. "
            "Compute sizes from spec, such as nn.Linear(spec.state_dim, 32)."
        )
    require_savable(part, name)
    return conform(part, kind, name)


def build_loss(settings: Settings, spec: EnvSpec, model: Model) -> Loss:
    """The loss, for these agents and this mixer.

    Raises:
        ValueError: it lacks what a loss must have, or does not fit the mixer or the distribution.
    """
    node, device = settings.nodes["algo.loss"], module_device(model)
    distribution = build_distribution(settings).to(device)
    loss = conform(node.build(spec=spec, distribution=distribution), Loss, "algo.loss")
    require_savable(loss, "algo.loss", begun=True)  # a test saves it before the first update
    require_fit(
        "loss",
        settings,
        loss=loss,
        distribution=distribution,
        asks=node.asks_for("distribution"),
        mixer=model.mixer,
        spec=spec,
    )
    hardware = settings.hardware
    most = available_cores() if hardware.threads == "auto" else None
    return kernels.compile_loss(loss, model, most, hardware.target_cache, hardware.kernels)


def about(settings: Settings, spec: EnvSpec) -> dict[str, Any]:
    """Return the records that are saved with weights: enough to build a network for them."""
    return {checkpoint.CONFIG: settings.record, checkpoint.SPEC: spec.record}


def load_mixer(settings: Settings, spec: EnvSpec, device: torch.device, folder: Path) -> Mixer:
    """The mixer with the weights of a checkpoint whose agents fit.

    Raises:
        ValueError: it is the user's own class, which an evaluation does not build.
    """
    build = partial(settings.nodes["algo.mixer"].build, spec=spec)
    mixer: Mixer = load("mixer", build, settings, spec, folder)
    return mixer.to(device)


def load_agents(settings: Settings, spec: EnvSpec, device: torch.device, folder: Path) -> Agents:
    """The network that acts, with the weights of a checkpoint; nothing else of the run is built.

    Raises:
        UsageError: the weights belong to another environment or network.
    """
    with seed_networks(seed_key(settings.run.seed, NETWORK_STREAM)):
        build = partial(build_agents, settings, spec)
        agents: Agents = load("agents", build, settings, spec, folder)
    return agents.to(device)


def load(
    name: str, build: Callable[[], Any], settings: Settings, spec: EnvSpec, folder: Path
) -> Any:
    """A part of the networks with the weights of a checkpoint, whose configuration may be a
    stranger's: sizes are compared before there is memory for it. UsageError where they differ.
    """
    saved = checkpoint.read_networks(folder).get("online", {})
    tensors = saved if isinstance(saved, Mapping) else {}
    own = {key: tensor for key, tensor in tensors.items() if key.startswith(f"{name}.")}
    part_node = settings.nodes["algo.network" if name == "agents" else f"algo.{name}"]
    for device in ("meta", "cpu") if part_node.shipped else ("cpu",):
        with torch.device(device):
            part = build()
        have = {f"{name}.{key}": tensor for key, tensor in part.state_dict().items()}
        check_fits({"online": have}, {"online": own}, folder, about(settings, spec))
    part.load_state_dict({key.removeprefix(f"{name}."): t for key, t in own.items()})
    return part
