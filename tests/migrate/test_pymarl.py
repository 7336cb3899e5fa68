"""PyMARL's weights in memory, put into a learner, and what is typed where they do not fit it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import rltrain
from rltrain.migrate import load_pymarl, named_parts
from rltrain.migrate.pymarl import advice
from rltrain.migrate.pymarl_files import PymarlFiles
from rltrain.types import EnvSpec
from tests.algo.batches import AGENTS, METHODS, SPEC, make_learner, make_method, make_model

PAIR = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=3)


def weights_of(module):
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def learner_of(name, seed=0):
    model, loss = make_method(name, seed)
    return make_learner(model, loss=loss)


@pytest.mark.parametrize("name", METHODS)
def test_all_networks_of_a_method_are_loaded_and_the_targets_are_copies(name):
    learner, other = learner_of(name), learner_of(name, seed=1)
    load_pymarl(learner, **{part: weights_of(m) for part, m in named_parts(other.online).items()})
    for model in (learner.online, learner.target):
        assert_close(model.state_dict(), other.online.state_dict(), rtol=0, atol=0)


def test_targets_that_are_given_are_loaded_as_they_are():
    learner, online, target = (learner_of("qmix", seed) for seed in range(3))
    parts = {part: weights_of(module) for part, module in named_parts(online.online).items()}
    parts |= {f"target_{part}": weights_of(m) for part, m in named_parts(target.online).items()}
    load_pymarl(learner, **parts)
    assert_close(learner.target.state_dict(), target.online.state_dict(), rtol=0, atol=0)


def test_a_name_of_qatten_is_translated():
    learner = learner_of("qatten")
    mixer = weights_of(learner.online.mixer)
    theirs = {n.replace("constant_layer", "constrant_value_layer"): w for n, w in mixer.items()}
    load_pymarl(learner, weights_of(learner.online.agents), {n: w + 1 for n, w in theirs.items()})
    assert np.allclose(
        weights_of(learner.online.mixer)["constant_layer.0.bias"],
        mixer["constant_layer.0.bias"] + 1,
    )


def test_networks_of_pymarl2_are_loaded_by_their_own_names():
    """Its QMIX numbers the layers of the mixing network; its agents may normalize their output."""
    learner, other = (
        make_learner(make_model(mixer="qmix", seed=seed, layer_norm=True)) for seed in range(2)
    )
    names = {"hyper_w_1.": "hyper_w1.", "hyper_b_1.": "hyper_b1.0.", "hyper_w_final.": "hyper_w2."}
    names |= {"V.": "hyper_b2.", "norm.": "layer_norm."}

    def named_there(module):
        found = {}
        for name, weight in weights_of(module).items():
            first, dot, rest = name.partition(".")
            found[names.get(first + dot, first + dot) + rest] = weight
        return found

    load_pymarl(learner, named_there(other.online.agents), named_there(other.online.mixer))
    assert_close(learner.online.state_dict(), other.online.state_dict(), rtol=0, atol=0)


def test_agents_without_memory_are_loaded_by_their_own_names():
    learner, other = (
        make_learner(make_model("mlp", "sum", seed=seed, hidden_sizes=[8, 8])) for seed in range(2)
    )
    ours = weights_of(other.online.agents)
    names = {"torso.0": "fc1", "torso.2": "rnn", "head.advantage.0": "fc2"}
    layers = {name: name.rpartition(".") for name in ours}
    load_pymarl(learner, {f"{names[a]}.{leaf}": ours[n] for n, (a, _, leaf) in layers.items()})
    assert torch.equal(learner.online.agents.torso[2].bias, other.online.agents.torso[2].bias)


def test_weights_of_other_sizes_are_refused_and_nothing_is_loaded():
    learner, other = learner_of("qmix"), learner_of("qmix", seed=1)
    before = {name: t.clone() for name, t in learner.online.state_dict().items()}
    wider = partial(AGENTS["gru"], hidden_dim=16)(spec=SPEC)
    mixer = weights_of(other.online.mixer)
    with pytest.raises(ValueError, match=r"agent: fc1.bias: expected \[8\], got \[16\]"):
        load_pymarl(learner, weights_of(wider), mixer)
    agent = weights_of(other.online.agents)
    with pytest.raises(ValueError, match=r"mixer: V.0.bias is missing"):
        load_pymarl(learner, agent)
    with pytest.raises(ValueError, match=r"central_mixer: .* is not expected"):
        load_pymarl(learner, agent, mixer, central_mixer=mixer)
    with pytest.raises(ValueError, match=r"target_mixer: V.0.bias is missing"):
        load_pymarl(learner, agent, mixer, target_mixer={})
    assert all(torch.equal(t, before[name]) for name, t in learner.online.state_dict().items())


def test_a_mixer_for_a_method_without_one_is_refused():
    learner = make_learner(make_model(mixer="sum"))
    agent = weights_of(learner.online.agents)
    with pytest.raises(ValueError, match=r"mixer: V.0.bias is not expected"):
        load_pymarl(learner, agent, weights_of(make_model(mixer="qmix").mixer))
    load_pymarl(learner, agent, {})


def small_model(*overrides):
    width = [] if "algo/network=mlp" in overrides else ["algo.network.hidden_dim=8"]
    plain = [*width, "hardware.threads=1", "hardware.kernels=torch"]
    return rltrain.make_learner([*overrides, *plain], PAIR).online


def files_of(*overrides):
    """A checkpoint of these settings, by names that PyMARL has as well."""
    parts = named_parts(small_model(*overrides))
    agent, mixer = parts["agent"].state_dict(), parts["mixer"].state_dict()
    return PymarlFiles(Path("1000"), 1000, agent, mixer, None)


def typed(files, *overrides):
    own = {n: list(t.shape) for n, t in small_model(*overrides).state_dict().items()}
    return list(advice(files, own, PAIR))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        *(("qplex", "qmix"), ("qplex", "vdn"), ("qplex_attention", "qplex"), ("qatten", "vdn")),
        *(("qmix", "qatten"), ("qtran", "qmix"), ("qmix", "qtran")),
    ],
)
def test_a_mixer_of_another_algorithm_is_named(theirs, ours):
    assert typed(files_of(f"algo={theirs}"), f"algo={ours}") == [f"algo={theirs}"]


@pytest.mark.parametrize(
    "sizes",
    [
        ["algo.mixer.kernel_layers=2"],
        ["algo.mixer.kernels=10", "algo.mixer.kernel_layers=3"],
        ["algo.mixer.hypernet_dim=16"],
        ["algo.mixer.kernel_layers=2", "algo.mixer.kernel_dim=16"],
    ],
)
def test_sizes_of_qplex_are_named(sizes):
    files = files_of("algo=qplex", *sizes)
    found = typed(files, "algo=qplex")
    assert set(sizes) <= set(found)
    assert typed(files, "algo=qplex", *found) == []


def test_layers_of_agents_without_memory_are_named():
    """EPyMARL has two hidden layers, algo/network=mlp one."""
    layers = {"fc1": nn.Linear(7, 64), "rnn": nn.Linear(64, 64), "fc2": nn.Linear(64, 2)}
    agent = nn.ModuleDict(layers).state_dict()
    files = PymarlFiles(Path("1000"), 1000, agent, {}, None)
    memoryless = ["algo=vdn", "algo/network=mlp", "algo.network.last_action=true"]
    assert typed(files, *memoryless) == ["algo.network.hidden_sizes=[64,64]"]


@pytest.mark.parametrize("ours", [["algo/network=lstm"], ["algo.network.layer_norm=true"]])
def test_another_recurrent_network_is_named(ours):
    (found,) = typed(files_of("algo=vdn"), "algo=vdn", *ours)
    assert found in ("algo/network=gru", "algo.network.layer_norm=false")
