"""Networks elsewhere than on the CPU: no value is read when their counterparts are chosen, and
PyTorch computes the gradient step. A meta tensor has no values, and stands for a GPU.
"""

from dataclasses import fields, replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rltrain.api import settings_from
from rltrain.assemble.build_learner import build_learner
from rltrain.types import Batch, Clock, EnvSpec
from tests.algo.batches import make_batch
from tests.algo.network.test_unit_agents import MAP
from tests.marks import slow_except

TEAM = EnvSpec(n_agents=3, n_actions=5, obs_shape=(7,), state_dim=11)
ALONE = EnvSpec(n_agents=1, n_actions=5, obs_shape=(7,), state_dim=11)
PIXELS = EnvSpec(n_agents=1, n_actions=5, obs_shape=(2, 10, 10))
TEAMS = ["iql", "vdn", "qmix", "qplex", "qplex_attention", "qatten", "qtran", "ow_qmix", "cw_qmix"]
SINGLE = ["dqn", "simple_q", "noisy", "c51", "qrdqn", "iqn", "rainbow", "munchausen_dqn"]
SINGLE += ["drqn", "r2d2"]
CASES = [
    *((f"algo={name}", TEAM) for name in TEAMS),
    *((f"algo={name}", ALONE) for name in SINGLE),
    ("algo=qmix algo/network=lstm", TEAM),
    ("algo=qmix algo.network.groups=[[0],[1,2]]", TEAM),
    ("algo=qmix algo.loss.trace=0.6", TEAM),
    *((f"algo=qmix algo/network={name}", MAP) for name in ("attention", "hpn")),
    ("algo=qmix algo/network=attention algo/mixer=entities", MAP),
    ("algo=qplex algo/network=gru algo/mixer=entities", MAP),
    *(
        (f"algo={name} algo/network=conv algo.network.filters=[[8,3,1]]", PIXELS)
        for name in SINGLE[:7]
    ),
]
PARTS = ("qmix", "qplex", "qtran", "iqn", "rainbow", "r2d2")
FAST = [case for case in CASES[:-6] if case[0].removeprefix("algo=") in PARTS]
FAST += [case for case in CASES if case[0].endswith("attention")]
"""Without those whose parts others have."""


class Crossings(TorchDispatchMode):
    """The operations that bring tensors of the CPU to another device."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        result = func(*args, **(kwargs or {}))
        made = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        crosses = any(x.is_cpu and x.dim() for x in tensors) and any(x.is_meta for x in made)
        self.found += [func.name()] * crosses
        return result


def on_meta(batch: Batch) -> Batch:
    tensors = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    moved = {n: t.to("meta") for n, t in tensors.items() if isinstance(t, torch.Tensor)}
    return replace(batch, **moved)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", slow_except(FAST, CASES), ids=lambda case: case[0])
def test_no_value_is_read_of_a_network_elsewhere(case):
    words, spec = case
    if "algo/network" not in words and words.split("=")[1] in SINGLE[:8]:
        words += " algo/network=mlp"
    overrides = [*words.split(), "hardware.kernels=compiled", "algo/optimizer=rmsprop"]
    learner = build_learner(settings_from(overrides), spec, torch.device("meta"))
    recurrent = spec.n_agents > 1 or "drqn" in words or "r2d2" in words
    batch = make_batch([4, 3] if recurrent else [1, 1], spec=spec)
    step = learner.gradient_step
    (moments,) = step.optimizer.state.values()
    moments["step"] = moments["step"].to("meta")  # as on a GPU, where it is capturable
    step._optimize = lambda: None  # which PyTorch has for no meta tensors
    batch = on_meta(replace(batch, burn_in=0) if spec.n_agents > 1 else batch)  # whole episodes
    learner.check._unchecked = False  # the values of the first batch's result are read
    with Crossings() as crossings:
        priority, metrics = learner.step(batch, Clock())
    assert not crossings.found  # a CUDA graph cannot contain them
    assert priority.is_meta
    assert metrics["loss"].is_meta
