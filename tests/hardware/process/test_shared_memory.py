"""Weights that workers read are those of ``load_state_dict``, whatever else it does."""

import copy
import importlib
import sys
import types

import pytest
import torch
from torch import nn

import rltrain
from rltrain.hardware.process.shared_memory import SharedExchange
from rltrain.types import EnvSpec
from tests.hardware.process.networks import KINDS, Derived
from tests.marks import each_once

SPEC = EnvSpec(n_agents=2, n_actions=3, obs_shape=(4,), state_dim=3)
ONE = EnvSpec(n_agents=1, n_actions=3, obs_shape=(4,))
SHIPPED = [
    ["algo=dqn", "algo.network.normalize_obs=true"],
    ["algo=qmix", "algo.network.normalize_obs=true"],
    ["algo=rainbow"],
    ["algo=iqn"],
    ["algo=iql", "algo.network.groups=[[0],[1]]"],
    ["algo=r2d2"],
]


def agents_of(overrides):
    spec = SPEC if overrides[0] in ("algo=qmix", "algo=iql") else ONE
    return rltrain.make_learner(overrides, spec).online.agents


def through_memory(learned, worker):
    exchange = SharedExchange({}, worker, 1)
    exchange.publish(learned)
    exchange.read(worker)
    for array in exchange.weights.arrays.values():  # the run continues while the worker acts
        array.fill(99)


def through_ray(learned, worker):
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("ray") is None:  # the exchange itself needs nothing of it
            errors = {"GetTimeoutError": TimeoutError, "RayError": RuntimeError}
            for name, content in (("ray", {}), ("ray.exceptions", errors)):
                module = types.ModuleType(name)
                vars(module).update(content)
                patch.setitem(sys.modules, name, module)
        cluster = importlib.import_module("rltrain.hardware.ray.cluster")
    sys.modules.pop("rltrain.hardware.ray.cluster")
    exchange = cluster.SentExchange()
    exchange.weights = {name: t.numpy().copy() for name, t in learned.state_dict().items()}
    exchange.read(worker)


def through_files(learned, worker):
    worker.load_state_dict({name: t.clone() for name, t in learned.state_dict().items()})


def everything(module):
    """All numbers of a module."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor.detach().tolist() for name, tensor in tensors.items()}


def change(module):
    """What training does to a module."""
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                tensor += 0.5 * torch.rand(tensor.shape)
    for part in module.modules():
        if isinstance(part, Derived):
            part.learn()


@pytest.mark.sampled(9)
@each_once(kind=[*KINDS, *SHIPPED], way=[through_memory, through_ray])
def test_workers_have_all_that_loading_gives(kind, way):
    learned = agents_of(kind) if isinstance(kind, list) else nn.Sequential(kind())
    worker, loaded = copy.deepcopy(learned), copy.deepcopy(learned)
    if "normalize" in str(kind):  # copies share statistics, processes do not
        worker, loaded = agents_of(kind), agents_of(kind)
    change(learned)
    through_files(learned, loaded)
    assert everything(loaded) != everything(worker)
    way(learned, worker)
    assert everything(worker) == everything(loaded)
    if not isinstance(kind, list):
        x = torch.linspace(-1, 1, 8).view(2, 4)
        torch.testing.assert_close(worker.eval()(x), loaded.eval()(x), rtol=0, atol=0)


@pytest.mark.parametrize("algo", ["dqn", "qmix", "rainbow", "iqn", "r2d2"])
def test_what_loading_only_copies_is_only_copied(algo):
    """Loading takes three times as long, for every step of the environments."""
    agents = agents_of([f"algo={algo}"])
    exchange = SharedExchange({}, agents, 1)
    exchange.publish(agents)
    assert exchange._owners
