"""States of one's own parts that no checkpoint can hold are named in the first iteration."""

import pytest
import torch

import rltrain
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.buffer import OnPolicyBuffer
from rltrain.callback import Callback
from rltrain.errors import UsageError
from tests.env.team.scripted import Scripted
from tests.integration.test_own_parts_refused import CARTPOLE, MeanValue

HERE = __name__


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


class LateOptimizer(torch.optim.SGD):
    """Has its state after the first step."""

    def step(self, closure=None):
        super().step()
        self.state[self.param_groups[0]["params"][0]]["mean"] = torch.zeros(1, dtype=torch.bfloat16)


def test_a_state_that_an_optimizer_makes_is_checked_after_the_first_update(tmp_path):
    """Defect: a run trained to its end, and could not be saved there."""
    overrides = [*CARTPOLE, f"algo.optimizer={{_target_: {HERE}.LateOptimizer, lr: 0.01}}"]
    trainer = rltrain.make_trainer([*overrides, "algo.batch_size=4"], tmp_path)
    with pytest.raises(
        ValueError, match=r"algo: .*\(optimizer\.mean: an array of bfloat16 cannot be"
    ):
        trainer.train()
    assert trainer.clock.env_steps < 30


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
    left_out = ("algo.learning_starts", "env=" if env else "-")
    overrides = [w for w in CARTPOLE if not w.startswith(left_out)]
    said = (
        rf"{said}: the state_dict of .* cannot be saved in checkpoints \(AttributeError: .*'count'"
    )
    with pytest.raises((ValueError, UsageError), match=said):
        rltrain.make_trainer([*overrides, *word.split("; ")], tmp_path, env=env).iterate()
    assert not list(tmp_path.glob("checkpoints/[1-9]*"))
