"""Mistakes in one's own hooks and optimizers are named, also states that no checkpoint can hold."""

import pytest
import torch

import rltrain
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.buffer import OnPolicyBuffer
from rltrain.callback import Callback
from rltrain.errors import UsageError
from tests.conftest import CARTPOLE
from tests.env.team.scripted import Scripted
from tests.helpers import without
from tests.integration.test_own_parts_refused import MeanValue

HERE = __name__


class Says(Callback):
    def on_log(self, trainer, value):
        return {**value, "text": "much"}


class Reprioritizes(Callback):
    """Priorities of every update become ``given``."""

    def __init__(self, given):
        self.given = given

    def on_update(self, trainer, value):
        return value._replace(priority=self.given)


class Forgets(Callback):
    """Defect: the run finished, and its checkpoints could not be read."""

    def on_save(self, trainer, value):
        return {name: part for name, part in value.items() if name != "model"}


PRIORITIES = r"New priorities: expected one number.*got "


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (Says(), r"Says\.on_log returned text='much': expected numbers"),
        (Reprioritizes(torch.full((64,), -1.0)), rf"{PRIORITIES}-1\.0\."),
        (Reprioritizes(torch.ones(3)), rf"{PRIORITIES}the shape \(3,\)\."),
        (Forgets(), r"Forgets\.on_save left out model: expected all parts"),
    ],
    ids=["metrics", "negative priorities", "few priorities", "parts"],
)
def test_what_a_hook_returns_is_checked(tmp_path, hook, said):
    prioritized = ["buffer=prioritized"] if isinstance(hook, Reprioritizes) else []
    trainer = rltrain.make_trainer([*CARTPOLE, *prioritized], tmp_path, callbacks=[hook])
    with pytest.raises(ValueError if prioritized else UsageError, match=said):
        trainer.train()
    if isinstance(hook, Forgets):
        assert rltrain.load_policy(tmp_path).step == 0


class Raises(Callback):
    def on_iteration(self, trainer, value=None):
        raise ValueError("on purpose")


class Asks(Callback):
    def on_step(self):
        """Takes too little."""


@pytest.mark.parametrize(("name", "hook"), [("Raises", "on_iteration"), ("Asks", "on_step")])
def test_an_exception_in_a_hook_names_it(own_folder, name, hook):
    with pytest.raises(RuntimeError, match=rf"\(in {HERE}\.{name}\.{hook}\)"):
        rltrain.train([*CARTPOLE, f"callbacks=[{{_target_: {HERE}.{name}}}]"])


class Stateless:
    """Gradient descent of the optimizers' protocol, without moments."""

    def __init__(self, params, lr):
        self.param_groups, self.state, self.lr = [{"params": params, "lr": lr}], {}, lr

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.data -= self.lr * parameter.grad


def test_an_optimizer_without_state_is_saved_and_resumed(own_folder):
    """Defect: a KeyError at the first checkpoint."""
    optimizer = f"algo.optimizer={{_target_: {HERE}.Stateless, lr: 0.01}}"
    rltrain.train([*CARTPOLE, optimizer, "hydra.run.dir=whole"])
    rltrain.train([*CARTPOLE, optimizer, "hydra.run.dir=part", "total_env_steps=30"])
    rltrain.resume("part", 60, trust=["tests"])
    whole, part = (
        own_folder / f"{run}/checkpoints/60/model.safetensors" for run in ("whole", "part")
    )
    assert whole.read_bytes() == part.read_bytes()


class LateOptimizer(torch.optim.SGD):
    """Has its state after the first step."""

    def step(self, closure=None):
        super().step()
        self.state[self.param_groups[0]["params"][0]]["mean"] = torch.zeros(1, dtype=torch.bfloat16)


def test_a_state_that_an_optimizer_makes_is_checked_after_the_first_update(tmp_path):
    """Defect: a run trained to its end, and could not be saved there."""
    overrides = [*CARTPOLE, f"algo.optimizer={{_target_: {HERE}.LateOptimizer, lr: 0.01}}"]
    trainer = rltrain.make_trainer([*overrides, "algo.batch_size=4"], tmp_path)
    said = r"algo: .*\(optimizer\.mean: an array of bfloat16 cannot be"
    with pytest.raises(ValueError, match=said):
        trainer.train()
    assert trainer.clock.env_steps < 30


class Late:
    """A state that names what training never sets."""

    def state_dict(self):
        return {"count": self.count}


class LateCallback(Callback):
    state_names = ("count",)

    def on_train_start(self, trainer, value=None):
        self.counted = 0


class LateLoss(Late, MeanValue):
    pass


class LateExploration(Late, FixedEpsilon):
    def __init__(self):
        super().__init__(epsilon=1.0)


class LateBuffer(Late, OnPolicyBuffer):
    pass


class LateTeam(Scripted):
    """Saves its state until its first step."""

    def state_dict(self):
        return {"t": self.count if self.given else self.t}

    def load_state_dict(self, state):
        self.t = state["t"]


@pytest.mark.parametrize(
    ("word", "env", "said"),
    [
        (f"callbacks=[{{_target_: {HERE}.LateCallback}}]", None, "callbacks"),
        (f"algo.loss={{_target_: {HERE}.LateLoss}}", None, r"algo\.loss"),
        (f"algo.exploration={{_target_: {HERE}.LateExploration}}", None, r"algo\.exploration"),
        (f"algo=pqn; buffer._target_={HERE}.LateBuffer", None, "buffer"),
        ("algo=iql", LateTeam, "env"),
    ],
)
def test_a_state_that_cannot_be_saved_is_named_in_the_first_iteration(tmp_path, word, env, said):
    """Defect: the run was lost at its first checkpoint."""
    words = [*without(CARTPOLE, "algo.learning_starts", "env=" if env else "-"), *word.split("; ")]
    said += ": the state_dict of .* cannot be saved in checkpoints "
    with pytest.raises((ValueError, UsageError), match=rf"{said}\(AttributeError: .*'count'"):
        rltrain.make_trainer(words, tmp_path, env=env).iterate()
    assert not list(tmp_path.glob("checkpoints/[1-9]*"))
