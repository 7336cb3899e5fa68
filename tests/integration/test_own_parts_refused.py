"""Mistakes in one's own parts are named, most of them before anything is trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import rltrain
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.buffer import OnPolicyBuffer
from rltrain.callback import Callback
from rltrain.errors import UsageError
from rltrain.interfaces import Loss, Mixer
from rltrain.types import LossResult, Output
from tests.conftest import CARTPOLE


def put_classes(base, method, table):
    """Put into this module a subclass for each row: its name, and the function for a method."""
    classes = {name: type(name, (base,), {method: does}) for name, (does, *_) in table.items()}
    globals().update(classes)


class Network(nn.Module):
    """Agents whose ``step`` returns what ``given`` makes of values and states."""

    hidden_dim, uses_last_action, draws_noise = 0, False, False

    def __init__(self, *, spec):
        super().__init__()
        self.layer = nn.Linear(spec.obs_shape[0], spec.n_actions)

    def given(self, q, hidden):
        return q, hidden

    def step(self, obs, last_action, hidden):
        return self.given(self.layer(obs), hidden)

    def unroll(self, batch, start=0, stop=None):
        return Output(*self.step(batch.obs, batch.last_action, batch.obs[..., :0]))


STEP = {
    "OneValue": (
        lambda net, q, hidden: (q.max(-1, keepdim=True).values, hidden),
        r"returned \[\(2, 1, 1\), \(2, 1, 0\)\].*\(2, 1, 2\)",
    ),
    "NoState": (lambda net, q, hidden: q, "returned Tensor"),
    "Half": (
        lambda net, q, hidden: (q.half(), hidden),
        r"returned numbers of float16 and float32 .* of float32\.",
    ),
    "HalfState": (
        lambda net, q, hidden: (q, hidden.bfloat16()),
        "returned numbers of float32 and bfloat16 ",
    ),
    "Narrow": (
        lambda net, q, hidden: (q @ torch.zeros(3, 2), hidden),
        r"failed: RuntimeError: mat1 .* line \d+\). It was called with obs float32 \[2, 1, 4\], "
        r"last_action int64 \[2, 1\], hidden float32 \[2, 1, 0\]",
    ),
}
"""Networks by what their ``step`` makes of values and states, and what is said of it."""
put_classes(Network, "given", STEP)
UNROLL = {
    "Short": (
        lambda net, batch: Output(*(x[:-1] for x in Network.unroll(net, batch)[:2])),
        r"returned \[\(3, 2, 1, 2\), .*\(4, 2, 1, 2\)",
    ),
    "Bare": (
        lambda net, batch: Network.unroll(net, batch).q,
        r"returned Tensor.*rltrain\.types\.Output",
    ),
    "HalfUnroll": (
        lambda net, batch: Network.unroll(net, batch)._replace(q=net.layer(batch.obs).half()),
        "returned numbers of float16 and float32 ",
    ),
    "NarrowUnroll": (
        lambda net, batch: batch.obs @ torch.zeros(3, 2),
        r"failed: RuntimeError: .*called with batch \(obs float32 \[4, 2, 1, 4\], ",
    ),
    "Frozen": (torch.no_grad()(Network.unroll), "returned values without a gradient"),
}
put_classes(Network, "unroll", UNROLL)


class PlainMixer(Mixer):
    n_streams = 1

    def __init__(self, *, spec):
        super().__init__()


FORWARD = {
    "Flat": (lambda mixer, q, *others: q.sum(-1), r"returned \[\(3, 2\)\].*\(3, 2, 1\)"),
    "HalfMixer": (
        lambda mixer, q, *others: q.sum(-1, keepdim=True).half(),
        "returned numbers of float16 for ",
    ),
    "TwoArguments": (  # as in PyMARL
        lambda mixer, agent_qs, states: agent_qs,
        r"failed: TypeError: .*takes 3 positional arguments but 5 were given.*"
        r"called with q float32 \[3, 2, 1\], greedy_q .*expected values \[T, B, M\]",
    ),
    "NarrowMixer": (
        lambda mixer, q, *others: q @ torch.zeros(3, 1),
        r"failed: RuntimeError: .*\(.*refused\.py, line \d+\)\. It was called",
    ),
}
put_classes(PlainMixer, "forward", FORWARD)


class Exploration(FixedEpsilon):
    """Chooses at random."""

    def __init__(self):
        super().__init__(epsilon=1.0)


METRICS = {
    "TextMetric": (
        lambda exploration, clock: {"epsilon": "much"},
        "returned epsilon='much': expected numbers",
    ),
    "NoMetrics": (lambda exploration, clock: None, "returned None: expected numbers by name"),
    "RaisedMetric": (
        lambda exploration, clock: {"epsilon": exploration.rate},
        "failed: AttributeError: .* no attribute 'rate'",
    ),
}
put_classes(Exploration, "metrics", METRICS)
ENDS = {"TextEnd": (lambda exploration: "1000", "returned '1000': expected an env step")}
put_classes(Exploration, "ends_at", ENDS)


class Mixed(Network):
    """A float64 layer, converted in ``step``."""

    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.head = nn.Linear(2, 2).double()

    def given(self, q, hidden):
        return self.head(q.double()).float(), hidden


class Indexes(Network):
    """Whole numbers as a parameter."""

    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.order = nn.Parameter(torch.arange(2), requires_grad=False)


class Complex(Network):
    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.register_buffer("phase", torch.ones(2, dtype=torch.complex64))


class NoInit(nn.Module):
    def __init__(self, *, spec):
        self.layer = nn.Linear(2, 2)


class NoPlan(OnPolicyBuffer):
    def __init__(self, *, spec, n_envs, device, rng):
        super().__init__(spec=spec, n_envs=n_envs, device=device, rng=rng, targets=print)

    def plan(self):
        return None


class Unsavable(Callback):
    def state_dict(self):
        return {"a": [object()]}


class NoStateDict(Callback):
    def state_dict(self):
        pass


class TextNames(Callback):
    state_names, count = "count", 0


TARGET = f"{{_target_: {__name__}.@}}"
NETWORK, CALLBACK = f"algo.network={TARGET}", f"callbacks=[{TARGET}]"
BUFFER, OPTIMIZER = (
    f"buffer=on_policy; buffer._target_={__name__}.@",
    "algo.optimizer={_target_: @}",
)
UNSAVED = r"cannot be saved in checkpoints \("
PARTS = {
    ("NoInit", NETWORK): r"\(algo\.network\) cannot be built: AttributeError: cannot assign mod",
    ("Mixed", NETWORK): "agents.layer.bias is float32, .*head.* is float64",
    ("Indexes", NETWORK): r"but agents\.order is int64, .*register what is not trained as a buffer",
    ("Complex", NETWORK): r"Complex cannot be saved .*\(phase: an array of",
    ("NoStateDict", CALLBACK): rf"state_dict of .*NoStateDict {UNSAVED}it is None\)",
    ("Unsavable", CALLBACK): rf"state_dict of .*Unsavable {UNSAVED}a.0: object cannot be saved",
    ("TextNames", CALLBACK): r"TextNames\.state_names is 'count': expected .*\('count',\)",
    ("NoPlan", BUFFER): r"NoPlan\.plan \(buffer\) returned None: expected an rltrain\.types\.Plan",
    ("torch.optim.LBFGS", OPTIMIZER): "LBFGS computes the loss several times a step.*"
    "Type algo/optimizer=adam",
}
"""A part, how it is named in the command, and what is said."""
for part, method, table in (
    ("network", "step", STEP),
    ("network", "unroll", UNROLL),
    ("mixer", "forward", FORWARD),
    ("exploration", "metrics", METRICS),
    ("exploration", "ends_at", ENDS),
):
    for name, (_, said) in table.items():
        PARTS[name, f"algo.{part}={TARGET}"] = rf"{name}\.{method} \(algo\.{part}\) {said}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "word"), PARTS)
def test_a_part_that_cannot_work_is_named_before_anything_is_trained(own_folder, name, word):
    with pytest.raises(UsageError, match=PARTS[name, word]):
        rltrain.train([*CARTPOLE, *word.replace("@", name).split("; ")])
    assert not list(own_folder.glob("outputs/*/*/checkpoints"))


class MeanValue(Loss):
    """The mean value as a loss, changed by ``made``."""

    def __init__(self, *, gamma=0.9, n_step=1):
        self.gamma, self.n_step = gamma, n_step

    def __call__(self, online, target, batch, clock):
        q = online.agents.unroll(batch).q
        return self.made(LossResult(q.sum(), q.numel(), q.mean((0, 2, 3)).detach(), {}))

    def made(self, result):
        return result


LOSSES = {
    "Bald": (lambda loss, x: x.loss_sum, r"Tensor: expected an rltrain\.types\.LossResult"),
    "PerStep": (
        lambda loss, x: replace(x, priority=x.priority.expand(7, -1)),
        r"priority of the shape \(7, 64\): expected one per window",
    ),
    "Row": (
        lambda loss, x: replace(x, loss_sum=x.loss_sum.reshape(1)),
        r"loss_sum of the shape \(1,\): expected one number",
    ),
    "Worded": (
        lambda loss, x: replace(x, metrics={"loss": "much"}),
        r"metrics\['loss'\] = 'much': expected one number",
    ),
    "Signed": (
        lambda loss, x: replace(x, priority=-1 - x.priority.abs()),
        "priority -.*: expected finite numbers, none below 0",
    ),
    "Unknown": (
        lambda loss, x: replace(x, priority=x.priority * np.nan),
        "priority nan: expected finite numbers, none below 0",
    ),
    "Item": (
        lambda loss, x: replace(x, loss_sum=x.loss_sum.item()),
        r"loss_sum=.* without a gradient",
    ),
    "Detached": (
        lambda loss, x: replace(x, loss_sum=x.loss_sum.detach()),
        r"loss_sum=.* without a gradient.*algo\.network",
    ),
}
"""Losses by what they make of their result, and what is said of it."""
put_classes(MeanValue, "made", LOSSES)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_returns_something_else_is_named(tmp_path, name):
    overrides = [*CARTPOLE, f"algo.loss={{_target_: {__name__}.{name}}}"]
    trainer = rltrain.make_trainer(overrides, tmp_path)
    with pytest.raises(ValueError, match=f"returned {LOSSES[name][1]}"):
        trainer.train()
