"""What is typed where a PyMARL checkpoint belongs to other networks than those of the run."""

from pathlib import Path

import pytest
import torch
from torch import nn

import rltrain
from rltrain.migrate import named_parts
from rltrain.migrate.pymarl_advice import advice
from rltrain.migrate.pymarl_files import PymarlFiles
from rltrain.types import EnvSpec

SPEC = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=3)
SMALL = ["algo.network.hidden_dim=8", "hardware.threads=1", "hardware.kernels=torch"]


def learner_of(*overrides):
    return rltrain.make_learner([*overrides, *SMALL], SPEC)


def files_of(*overrides):
    """A checkpoint of these settings, by names that PyMARL has as well."""
    parts = named_parts(learner_of(*overrides).online)
    agent, mixer = parts["agent"].state_dict(), parts["mixer"].state_dict()
    return PymarlFiles(Path("1000"), 1000, agent, mixer, None)


def typed(files, *overrides):
    own = {n: list(t.shape) for n, t in learner_of(*overrides).online.state_dict().items()}
    return list(advice(files, own, SPEC))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("qplex", "qmix"),
        ("qplex", "vdn"),
        ("qplex_attention", "qplex"),
        ("qatten", "vdn"),
        ("qmix", "qatten"),
        ("qtran", "qmix"),
        ("qmix", "qtran"),
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
    own = rltrain.make_learner(
        ["algo=vdn", "algo/network=mlp", "algo.network.last_action=true", *SMALL[1:]], SPEC
    ).online.state_dict()
    shapes = {name: list(torch.as_tensor(t).shape) for name, t in own.items()}
    assert list(advice(files, shapes, SPEC)) == ["algo.network.hidden_sizes=[64,64]"]


@pytest.mark.parametrize("ours", [["algo/network=lstm"], ["algo.network.layer_norm=true"]])
def test_another_recurrent_network_is_named(ours):
    (found,) = typed(files_of("algo=vdn"), "algo=vdn", *ours)
    assert found in ("algo/network=gru", "algo.network.layer_norm=false")
