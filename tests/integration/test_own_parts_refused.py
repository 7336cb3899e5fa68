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

HERE = "tests.integration.test_own_parts_refused"
CARTPOLE = ["env=cartpole", "tuned=none", "total_env_steps=60", "test.episodes=1"]
CARTPOLE += ["algo.learning_starts=20", "hardware.n_envs=1", "hardware.threads=1"]
CARTPOLE += ["logger.console=false", "logger.wandb.mode=disabled", "log.interval=20"]


class Network(nn.Module):
    """Agents whose ``step`` returns what ``given`` makes of values and states."""

    hidden_dim, uses_last_action, draws_noise = 0, False, False

    def __init__(self, *, spec):
        super().__init__()
        self.layer = nn.Linear(spec.obs_shape[0], spec.n_actions)

    def step(self, obs, last_action, hidden):
        return self.given(self.layer(obs), hidden)

    def unroll(self, batch, start=0, stop=None):
        return Output(*self.step(batch.obs, batch.last_action, batch.obs[..., :0]))


class OneValue(Network):
    def given(self, q, hidden):
        return q.max(-1, keepdim=True).values, hidden


class NoState(Network):
    def given(self, q, hidden):
        return q


class Whole(Network):
    def given(self, q, hidden):
        return q, hidden


class Short(Whole):
    def unroll(self, batch, start=0, stop=None):
        return Output(*(x[:-1] for x in super().unroll(batch)[:2]))


class Bare(Whole):
    def unroll(self, batch, start=0, stop=None):
        return super().unroll(batch).q


class Half(Network):
    def given(self, q, hidden):
        return q.half(), hidden


class HalfState(Network):
    def given(self, q, hidden):
        return q, hidden.bfloat16()


class HalfUnroll(Whole):
    def unroll(self, batch, start=0, stop=None):
        return Output(super().unroll(batch).q.half(), batch.obs[..., :0])


class Mixed(Whole):
    """A float64 layer, converted in ``step``."""

    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.head = nn.Linear(2, 2).double()

    def given(self, q, hidden):
        return self.head(q.double()).float(), hidden


class Indexes(Whole):
    """Whole numbers as a parameter."""

    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.order = nn.Parameter(torch.arange(2), requires_grad=False)


class Complex(Whole):
    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.register_buffer("phase", torch.ones(2, dtype=torch.complex64))


class Frozen(Whole):
    @torch.no_grad()
    def unroll(self, batch, start=0, stop=None):
        return super().unroll(batch)


class Narrow(Whole):
    def given(self, q, hidden):
        return q @ torch.zeros(3, 2), hidden


class NarrowUnroll(Whole):
    def unroll(self, batch, start=0, stop=None):
        return Output(batch.obs @ torch.zeros(3, 2), batch.obs[..., :0])


class Flat(Mixer):
    n_streams = 1

    def __init__(self, *, spec):
        super().__init__()

    def forward(self, q, greedy_q, action, state):
        return q.sum(-1)


class HalfMixer(Flat):
    def forward(self, q, greedy_q, action, state):
        return q.sum(-1, keepdim=True).half()


class TwoArguments(Flat):
    """As in PyMARL."""

    def forward(self, agent_qs, states):
        return agent_qs


class NarrowMixer(Flat):
    def forward(self, q, greedy_q, action, state):
        return q @ torch.zeros(3, 1)


class MeanValue(Loss):
    """The mean value as a loss, changed by ``made``."""

    def __init__(self, *, gamma=0.9, n_step=1):
        self.gamma, self.n_step = gamma, n_step

    def __call__(self, online, target, batch, clock):
        q = online.agents.unroll(batch).q
        return self.made(LossResult(q.sum(), q.numel(), q.mean((0, 2, 3)).detach(), {}))

    def made(self, result):
        return result


class Bald(MeanValue):
    def made(self, result):
        return result.loss_sum


class PerStep(MeanValue):
    def made(self, result):
        return replace(result, priority=result.priority.expand(7, -1))


class Row(MeanValue):
    def made(self, result):
        return replace(result, loss_sum=result.loss_sum.reshape(1))


class Worded(MeanValue):
    def made(self, result):
        return replace(result, metrics={"loss": "much"})


class Signed(MeanValue):
    def made(self, result):
        return replace(result, priority=-1 - result.priority.abs())


class Unknown(MeanValue):
    def made(self, result):
        return replace(result, priority=result.priority * np.nan)


class Item(MeanValue):
    def made(self, result):
        return replace(result, loss_sum=result.loss_sum.item())


class Detached(MeanValue):
    def made(self, result):
        return replace(result, loss_sum=result.loss_sum.detach())


class TextMetric(FixedEpsilon):
    """Chooses at random; ``metrics`` and ``ends_at`` return what subclasses say."""

    said, until = {"epsilon": "much"}, None

    def __init__(self):
        super().__init__(epsilon=1.0)

    def metrics(self, clock):
        return self.said

    def ends_at(self):
        return self.until


class NoMetrics(TextMetric):
    said = None


class RaisedMetric(TextMetric):
    def metrics(self, clock):
        return {"epsilon": self.rate}


class TextEnd(TextMetric):
    said, until = {}, "1000"


class NoPlan(OnPolicyBuffer):
    def __init__(self, *, spec, n_envs, device, rng):
        super().__init__(spec=spec, n_envs=n_envs, device=device, rng=rng, targets=print)

    def plan(self):
        return None


class NoInit(nn.Module):
    def __init__(self, *, spec):
        self.layer = nn.Linear(2, 2)


class Unsavable(Callback):
    def state_dict(self):
        return {"a": [object()]}


class NoStateDict(Callback):
    def state_dict(self):
        pass


class TextNames(Callback):
    state_names, count = "count", 0


RETURNED = [
    ("network", "OneValue", "step", r"\[\(2, 1, 1\), \(2, 1, 0\)\].*\(2, 1, 2\)"),
    ("network", "NoState", "step", "Tensor"),
    ("network", "Short", "unroll", r"\[\(3, 2, 1, 2\), .*\(4, 2, 1, 2\)"),
    ("network", "Bare", "unroll", r"Tensor.*rltrain\.types\.Output"),
    ("network", "Half", "step", r"numbers of float16 and float32 .* of float32\."),
    ("network", "HalfState", "step", "numbers of float32 and bfloat16 "),
    ("network", "HalfUnroll", "unroll", "numbers of float16 and float32 "),
    ("mixer", "Flat", "forward", r"\[\(3, 2\)\].*\(3, 2, 1\)"),
    ("mixer", "HalfMixer", "forward", "numbers of float16 for "),
    ("exploration", "TextMetric", "metrics", "{'epsilon': 'much'}: expected numbers"),
    ("exploration", "NoMetrics", "metrics", "None: expected numbers by name"),
    ("exploration", "TextEnd", "ends_at", "'1000': expected an env step"),
]
"""A part, the method that cannot work, and what it returns."""
RAISED = [
    (
        "network",
        "Narrow",
        "step",
        r"RuntimeError: mat1 .* line \d+\). It was called with obs float32 "
        r"\[2, 1, 4\], last_action int64 \[2, 1\], hidden float32 \[2, 1, 0\]",
    ),
    (
        "network",
        "NarrowUnroll",
        "unroll",
        r"RuntimeError: .*called with batch \(obs float32 \[4, 2, 1, 4\], ",
    ),
    (
        "mixer",
        "TwoArguments",
        "forward",
        r"TypeError: .*takes 3 positional arguments but 5 were "
        r"given.*called with q float32 \[3, 2, 1\], greedy_q .*expected values \[T, B, M\]",
    ),
    (
        "mixer",
        "NarrowMixer",
        "forward",
        r"RuntimeError: .*\(.*refused\.py, line \d+\)\. It was called",
    ),
    ("exploration", "RaisedMetric", "metrics", "AttributeError: .* no attribute 'rate'"),
]
"""The same of what it raises."""
BUILT = {
    "NoInit": r"NoInit \(algo\.network\) cannot be built: AttributeError: cannot assign module",
    "Mixed": "all float32, or all float64, but agents.layer.bias is float32, .*head.* is float64",
    "Indexes": r"but agents\.order is int64, .*register what is not trained as a buffer",
}
UNSAVED = {"NoStateDict": r"it is None\)", "Unsavable": "a.0: object cannot be saved"}
PARTS = {
    **{
        f"algo.{part}={{_target_: {HERE}.{name}}}": rf"{name}\.{does} \(algo\.{part}\) returned {x}"
        for part, name, does, x in RETURNED
    },
    **{
        f"algo.{part}={{_target_: {HERE}.{name}}}": rf"{name}\.{does} \(algo\.{part}\) failed: {x}"
        for part, name, does, x in RAISED
    },
    f"algo.network={{_target_: {HERE}.Frozen}}": r"Frozen\.unroll \(algo\.network\) returned "
    "values without a gradient",
    f"callbacks=[{{_target_: {HERE}.TextNames}}]": r"TextNames\.state_names is 'count': expected .*"
    r"\('count',\)",
    **{f"algo.network={{_target_: {HERE}.{name}}}": said for name, said in BUILT.items()},
    **{
        f"callbacks=[{{_target_: {HERE}.{name}}}]": rf"state_dict of .*{name} cannot be saved in "
        rf"checkpoints \({said}"
        for name, said in UNSAVED.items()
    },
    f"algo.network={{_target_: {HERE}.Complex}}": r"Complex cannot be saved .*\(phase: an array of",
    f"buffer=on_policy; buffer._target_={HERE}.NoPlan": r"NoPlan\.plan \(buffer\) returned None: "
    r"expected an rltrain\.types\.Plan",
    "algo.optimizer={_target_: torch.optim.LBFGS}": "LBFGS computes the loss several times a step.*"
    "Type algo/optimizer=adam",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("word", PARTS)
def test_a_part_that_cannot_work_is_named_before_anything_is_trained(own_folder, word):
    with pytest.raises(UsageError, match=PARTS[word]):
        rltrain.train([*CARTPOLE, *word.split("; ")])
    assert not list(own_folder.glob("outputs/*/*/checkpoints"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Bald", r"returned Tensor: expected an rltrain\.types\.LossResult"),
        ("PerStep", r"returned priority of the shape \(7, 64\): expected one per window"),
        ("Row", r"returned loss_sum of the shape \(1,\): expected one number"),
        ("Signed", r"returned priority -.*: expected finite numbers, none below 0"),
        ("Unknown", r"returned priority nan: expected finite numbers, none below 0"),
        ("Item", r"returned loss_sum=.* without a gradient"),
        ("Detached", r"returned loss_sum=.* without a gradient.*algo\.network"),
        ("Worded", r"returned metrics\['loss'\] = 'much': expected one number"),
    ],
)
def test_a_loss_that_returns_something_else_is_named(tmp_path, name, said):
    overrides = [*CARTPOLE, f"algo.loss={{_target_: {HERE}.{name}}}"]
    trainer = rltrain.make_trainer(overrides, tmp_path)
    with pytest.raises(ValueError, match=said):
        trainer.train()
