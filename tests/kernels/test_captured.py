"""What was captured in a CUDA graph is captured again where anything in it was replaced."""

import copy
import random
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.optim import SGD

from rltrain.algo.loss import td
from rltrain.algo.mixer.qmix import QMix
from rltrain.kernels.captured import Parts
from rltrain.kernels.cuda_graph import (
    CannotCapture,
    Captures,
    NoClock,
    capturing,
    optimizer_tensors,
    parts_of_step,
)
from rltrain.kernels.module_watch import ModuleWatch
from rltrain.types import Clock
from tests.algo.batches import make_batch, make_learner

THIS, SCALE = sys.modules[__name__], 1.0


def scaled(x, by):
    return x * by * SCALE


def moments(learner):
    return learner.gradient_step.optimizer.state[learner.gradient_step.flat.values]


EDITS = {
    "a number of the loss": lambda x, patch: setattr(x.loss, "huber", 0.5),
    "a number of the returns": lambda x, patch: setattr(
        x.loss, "returns", replace(x.loss.returns, gamma=0.5)
    ),
    "the loss": lambda x, patch: setattr(x, "loss", td.TDLoss(gamma=0.9, double=True, n_step=1)),
    "an imported function": lambda x, patch: patch.setattr(td, "huber", lambda e, d: e),
    "a method of a class": lambda x, patch: patch.setattr(QMix, "forward", lambda *a: a[1]),
    "a method of an object": lambda x, patch: setattr(x.loss, "_td_target", lambda *a: None),
    "the rate": lambda x, patch: x.optimizer.param_groups[0].update(lr=0.5),
    "a moment": lambda x, patch: moments(x).update(square_avg=torch.zeros(3)),
    "the clipping": lambda x, patch: setattr(x.gradient_step, "max_grad_norm", 1.0),
    "training mode": lambda x, patch: x.online.agents.eval(),
    "a part": lambda x, patch: setattr(x.online.agents, "fc2", torch.nn.Linear(8, 4)),
    "a parameter": lambda x, patch: setattr(
        x.online.agents.fc2, "bias", torch.nn.Parameter(torch.zeros(4))
    ),
    "a list of an object": lambda x, patch: x.loss.weights.append(0.5),
    "an entry of a table": lambda x, patch: x.loss.coefficients["td"].update(scale=0.5),
    "a keyword of a partial": lambda x, patch: x.loss.scaled.keywords.update(by=0.5),
    "a constant of a function's module": lambda x, patch: patch.setattr(THIS, "SCALE", 0.5),
    "a number of a network": lambda x, patch: setattr(x.online.agents.input, "scale", 2.0),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_noticed(edit, monkeypatch):
    learner = make_learner()
    learner.loss.weights, learner.loss.coefficients = [1.0], {"td": {"scale": 1.0}}
    learner.loss.scaled = partial(scaled, by=1.0)
    learner.update(make_batch([4, 3]), Clock())
    parts = parts_of_step(learner)
    learner.update(make_batch([2, 3]), Clock(5, 1, 1))
    learner.load_state_dict(learner.state_dict())
    assert parts.same()
    EDITS[edit](learner, monkeypatch)
    assert not parts.same()


@pytest.mark.parametrize("change", ["optimizer", "state"])
def test_another_optimizer_or_state_is_noticed(change):
    learner = make_learner()
    learner.update(make_batch([4, 3]), Clock())
    before = optimizer_tensors(learner)
    if change == "state":
        learner.optimizer.state[learner.gradient_step.flat.values] = dict(moments(learner))
    else:
        learner.gradient_step.optimizer = SGD([learner.gradient_step.flat.values], lr=0.1)
    assert any(a is not b for a, b in zip(before, optimizer_tensors(learner), strict=True))


def test_the_same_number_again_is_no_edit():
    learner = make_learner()
    parts = parts_of_step(learner)
    learner.optimizer.param_groups[0]["lr"] = float(str(learner.optimizer.param_groups[0]["lr"]))
    assert parts.same()


def test_a_hook_is_noticed():
    learner = make_learner()
    watch = ModuleWatch(learner.online, learner.target, learns=True)
    assert watch.plain()
    learner.online.agents.fc1.register_forward_hook(lambda *args: None)
    assert not watch.plain()


class FakeGraph:
    """In place of a graph, which needs a GPU."""

    def __init__(self, pool):
        self.graph, self.given = self, pool

    def pool(self):
        return "pool"


def test_graphs_are_kept_by_layout_and_share_memory():
    part = torch.nn.Linear(2, 2)
    captures = Captures("steps", required=False)

    def get(layout):
        return captures.get(layout, lambda: Parts([part]), FakeGraph)

    one, two = get("a"), get("b")
    assert (one.given, two.given) == (None, "pool")
    assert get("a") is one
    part.extra = 1
    assert get("a") is not one


def failing(pool):
    raise CannotCapture("the loss reads clock.env_steps")


def test_what_cannot_be_captured_is_logged_once_and_launched_plainly(caplog):
    captures = Captures("gradient steps", required=False)
    assert captures.get("a", lambda: Parts([]), failing) is None
    assert captures.get("b", lambda: Parts([]), FakeGraph) is None
    (record,) = caplog.records
    assert "cannot be captured in a CUDA graph (the loss reads clock.env_steps)" in record.message


def test_what_cannot_be_captured_is_refused_where_it_is_required():
    with pytest.raises(ValueError, match=r"hardware\.kernels=auto"):
        Captures("gradient steps", required=True).get("a", lambda: Parts([]), failing)


class Counts(torch.nn.Module):
    calls, drawn = 0, (0, 0)


SIDE_EFFECTS = {
    "a counter": lambda part: setattr(part, "calls", part.calls + 1),
    "a tensor": lambda part: setattr(part, "last", torch.zeros(1)),
    "tensors": lambda part: setattr(part, "drawn", (torch.zeros(2), torch.zeros(2))),
    "Python's random numbers": lambda part: random.random(),
    "NumPy's random numbers": lambda part: np.random.rand(),
    "PyTorch's random numbers": lambda part: torch.rand(1),
}


@pytest.mark.parametrize("effect", SIDE_EFFECTS)
def test_a_step_with_effects_on_the_cpu_is_not_captured(effect, caplog):
    """Defect: the graph repeated what the first step did."""
    part, captures = Counts(), Captures("steps", required=False)
    part.last = torch.zeros(1)

    def capture(pool):
        SIDE_EFFECTS[effect](part)
        return FakeGraph(pool)

    assert captures.get("a", lambda: Parts([part]), capture) is None
    assert "cannot be captured" in caplog.text


def test_variables_of_a_script_that_no_part_reads_are_no_edits(monkeypatch):
    monkeypatch.setattr(THIS, "result", 1, raising=False)
    parts = Parts([partial(scaled, by=1.0)])
    monkeypatch.setattr(THIS, "result", 2)
    assert parts.same()


def test_an_error_of_any_kind_is_left_to_the_step_itself():
    captures = Captures("steps", required=False)
    assert captures.get("a", lambda: Parts([]), lambda pool: {}["missing"]) is None


class FakeGenerator:
    """In place of a GPU's generator: how much was drawn; its state can be that of another."""

    def __init__(self, device=""):
        self.set_state(0)

    def set_state(self, drawn):
        self.state = SimpleNamespace(drawn=drawn)

    def graphsafe_get_state(self):
        return self

    def graphsafe_set_state(self, other):
        self.state = other.state


class Draws(FakeGraph):
    """A graph that draws from the state that it was captured with."""

    def __init__(self, default, pool):
        super().__init__(pool)
        self.state = default.state

    def launch(self):
        self.state.drawn += 1


def test_graphs_draw_from_the_saved_generator_after_a_capture_that_broke_off(monkeypatch):
    """Defect: acting drew from the generator before it, which no checkpoint has."""
    default = FakeGenerator()
    monkeypatch.setattr(torch, "Generator", FakeGenerator)
    monkeypatch.setattr(torch.cuda, "default_generators", [default])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: default.state.drawn)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, pool: nullcontext())
    acting, learning = Captures("acting", required=False), Captures("steps", required=False)

    def act():
        acting.get("a", lambda: Parts([]), partial(Draws, default)).launch()
        return default.state.drawn  # as a checkpoint has it

    def broken_off(pool):
        with capturing(None, pool):
            failing(pool)

    assert [act(), act()] == [1, 2]
    assert learning.get("a", lambda: Parts([]), broken_off) is None
    assert [act(), act()] == [3, 4]


def test_a_copy_captures_for_itself():
    captures = Captures("steps", required=True)
    assert captures.get("a", lambda: Parts([]), FakeGraph) is not None
    other = copy.deepcopy(captures)
    assert (other.what, other.required, other._graphs) == ("steps", True, {})


def test_captures_count_only_in_a_row(monkeypatch):
    monkeypatch.setattr("rltrain.kernels.cuda_graph.MOST_CAPTURES", 2)
    monkeypatch.setattr("rltrain.kernels.cuda_graph.ENOUGH", 3)
    part, captures = Counts(), Captures("steps", required=True)
    for number in range(5):
        part.calls = number
        for _ in range(5):
            assert captures.get("a", lambda: Parts([part]), FakeGraph) is not None


def test_parts_that_change_in_every_step_are_not_captured_for_ever(monkeypatch):
    monkeypatch.setattr("rltrain.kernels.cuda_graph.MOST_CAPTURES", 3)
    part, captures = torch.nn.Linear(2, 2), Captures("steps", required=False)
    graphs = []
    for number in range(5):
        part.counter = number
        graphs.append(captures.get("a", lambda: Parts([part]), FakeGraph))
    assert [graph is None for graph in graphs] == [False, False, False, True, True]


def test_a_loss_that_reads_the_clock_is_not_captured():
    with pytest.raises(CannotCapture, match=r"clock\.env_steps"):
        _ = NoClock().env_steps
