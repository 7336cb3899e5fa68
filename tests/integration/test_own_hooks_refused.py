"""Mistakes in one's own hooks and optimizers are named."""

import pytest
import torch

import rltrain
from rltrain.callback import Callback
from rltrain.errors import UsageError
from tests.integration.test_own_parts_refused import CARTPOLE

HERE = "tests.integration.test_own_hooks_refused"


class Says(Callback):
    def on_log(self, trainer, value):
        return {**value, "text": "much"}


def test_metrics_of_a_hook_must_be_numbers(tmp_path):
    trainer = rltrain.make_trainer(CARTPOLE, tmp_path, callbacks=[Says()])
    with pytest.raises(UsageError, match=r"Says\.on_log returned text='much': expected numbers"):
        trainer.train()


class Reprioritizes(Callback):
    """Priorities of every update become ``given``."""

    def __init__(self, given):
        self.given = given

    def on_update(self, trainer, value):
        return value._replace(priority=self.given)


@pytest.mark.parametrize(
    ("given", "said"),
    [(torch.full((64,), -1.0), r"got -1\.0\."), (torch.ones(3), r"got the shape \(3,\)\.")],
    ids=["negative", "short"],
)
def test_priorities_of_a_hook_are_checked(tmp_path, given, said):
    overrides = [*CARTPOLE, "buffer=prioritized"]
    trainer = rltrain.make_trainer(overrides, tmp_path, callbacks=[Reprioritizes(given)])
    with pytest.raises(ValueError, match=rf"New priorities: expected one number.*{said}"):
        trainer.train()


class Forgets(Callback):
    def on_save(self, trainer, value):
        return {name: part for name, part in value.items() if name != "model"}


def test_a_hook_that_leaves_out_a_part_of_a_checkpoint_is_named(tmp_path):
    """Defect: the run finished, and its checkpoints could not be read."""
    trainer = rltrain.make_trainer(CARTPOLE, tmp_path, callbacks=[Forgets()])
    with pytest.raises(UsageError, match=r"Forgets\.on_save left out model: expected all parts"):
        trainer.train()
    assert rltrain.load_policy(tmp_path).step == 0


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
