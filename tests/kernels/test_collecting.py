"""Time steps without tensors: the same bits as the rollout's own loop makes."""

import sys
from typing import Any

import numpy as np
import pytest
import torch

import rltrain
from rltrain.errors import DivergedError
from rltrain.hardware.rollout import Rollout
from rltrain.kernels.module_watch import CompiledMethod
from tests.helpers import require_same
from tests.marks import each_once

COMMON = (
    *("tuned=none", "hardware.threads=1", "logger=[]", "algo.learning_starts=40"),
    *("algo.batch_size=16", "algo.network.hidden_sizes=[8]", "test.interval=10_000"),
    *("test.episodes=1", "total_env_steps=10_000"),
)
ENVS = {
    "cartpole": ("env=cartpole", "hardware.n_envs=3"),
    "one": ("env=cartpole", "hardware.n_envs=1"),
    "limit": ("env=cartpole", "hardware.n_envs=2", "env.max_episode_steps=15"),
    "terminal": (
        *("env=mountaincar", "hardware.n_envs=2", "env.max_episode_steps=30"),
        "env.time_limit=terminal",
    ),
    "acrobot": ("env=acrobot", "hardware.n_envs=2", "env.max_episode_steps=40"),
}
ALGOS = {
    "dqn": ("algo=dqn", "algo.steps_per_collect=7", "algo.exploration.env_steps=500"),
    "auto": ("algo=dqn", "algo.updates_per_env_step=0.05"),
    "normalized": ("algo=dqn", "algo.network.normalize_obs=true", "algo.steps_per_collect=7"),
    "c51": ("algo=c51", "algo.steps_per_collect=20"),
    "half_life": ("algo=dqn", "algo/exploration=exponential", "algo.steps_per_collect=5"),
    "dueling": ("algo=dqn", "algo.network.dueling=true", "algo.steps_per_collect=1"),
}


def made(folder: Any, *words: str, plain: bool = False, **more: Any) -> Any:
    """A trainer; ``plain``: with the rollout's own loop."""
    trainer = rltrain.make_trainer([*COMMON, *words], run_dir=folder, **more)
    if plain:
        vars(trainer.rollout).pop("advance")
    return trainer


def played(trainer: Any) -> dict[str, Any]:
    """Everything that a run of 200 env steps leaves."""
    torch.manual_seed(0)
    with trainer.reporting_exceptions():
        trainer.start()
        trainer.run(200)
    store = trainer.buffer.store
    saved = {
        "learner": trainer.learner.state_dict(),
        "stored": {name: np.array(array) for name, array in store.arrays.items()},
        "rollout": trainer.rollout.state_dict(),
        "acted": trainer.rollout.policy.acted_values,
        "metrics": trainer.metrics.state_dict(),
        "clock": trainer.clock,
    }
    trainer.close()
    return saved


@pytest.mark.sampled(2)
@each_once(env=ENVS, algo=ALGOS)
def test_every_bit_is_that_of_the_plain_loop(env, algo, tmp_path):
    words = (*ENVS[env], *ALGOS[algo])
    ours, theirs = (made(tmp_path / str(plain), *words, plain=plain) for plain in (False, True))
    assert isinstance(vars(ours.rollout)["advance"], CompiledMethod)
    compiled = played(ours)
    require_same(compiled, played(theirs))
    assert compiled["clock"].episodes > 1


def test_only_steps_that_begin_episodes_are_plain(tmp_path):
    trainer = made(tmp_path / "run", *ENVS["one"], *ALGOS["dqn"])
    calls: list[Any] = []

    def count(frame: Any, event: str, arg: object) -> None:
        if event == "call" and frame.f_code is Rollout.advance.__code__:
            calls.append(frame)

    trainer.start()
    sys.setprofile(count)
    trainer.run(300)
    sys.setprofile(None)
    assert len(calls) == trainer.clock.episodes > 3
    trainer.close()


OTHERS = (
    *("hardware.kernels=torch", "env.frame_stack=2", "env.compiled=false", "algo=noisy"),
    *("algo/exploration=boltzmann", "algo=iqn", "algo.network.last_action=true"),
    "buffer=prioritized buffer.initial_priority=td_error",
)


@pytest.mark.parametrize("words", OTHERS)
def test_other_parts_keep_the_plain_loop(words, tmp_path):
    algo = () if words.startswith("algo=") else ("algo=dqn",)
    trainer = made(tmp_path / "run", *algo, *ENVS["cartpole"], *words.split())
    assert "advance" not in vars(trainer.rollout)
    trainer.close()


REPLACED = {
    "act": lambda rollout, calls: replaced(rollout.policy, "act", calls),
    "values": lambda rollout, calls: replaced(rollout.policy, "values", calls),
    "noise": lambda rollout, calls: replaced(rollout.policy.exploration, "noise", calls),
    "choose": lambda rollout, calls: replaced(rollout.policy.exploration, "choose", calls),
    "step": lambda rollout, calls: replaced(rollout.env, "step", calls),
    "hook": lambda rollout, calls: rollout.policy.agents.register_forward_hook(
        lambda *a: calls.append(a)
    ),
}


def replaced(part: Any, name: str, calls: list[Any]) -> None:
    """Let an object count the calls of its own method."""
    own = getattr(part, name)
    setattr(part, name, lambda *a, **k: (calls.append(a), own(*a, **k))[1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_later_is_called_in_every_step(name, tmp_path):
    trainer = made(tmp_path / "run", *ENVS["cartpole"], "algo=dqn", "algo.learning_starts=9_000")
    trainer.start()
    trainer.run(30)
    calls, before = [], trainer.clock.env_steps
    REPLACED[name](trainer.rollout, calls)
    trainer.run(120)
    if name != "hook":  # called by ``step``, which compiled code does not make, or by PyTorch's own
        assert len(calls) >= (trainer.clock.env_steps - before) // 3
    assert not trainer.rollout.advance.func._computes(trainer.rollout)
    trainer.close()


def test_values_that_are_nan_end_the_run_as_in_the_plain_loop(tmp_path):
    errors = []
    for plain in (False, True):
        trainer = made(tmp_path / str(plain), *ENVS["one"], *ALGOS["dqn"], plain=plain)
        trainer.start()
        trainer.run(20)
        with torch.no_grad():
            next(trainer.learner.online.agents.parameters()).fill_(float("nan"))
        with pytest.raises(DivergedError) as error:
            trainer.run(60)
        errors.append(str(error.value))
        trainer.close()
    assert errors[0] == errors[1]


def test_changed_attributes_are_in_force(tmp_path):
    """The environments are asked for their values at every call."""
    saved = []
    for plain in (False, True):
        trainer = made(tmp_path / str(plain), *ENVS["cartpole"], *ALGOS["dqn"], plain=plain)
        trainer.start()
        trainer.run(100)
        trainer.rollout.call("set_task", {"gravity": 30.0})
        trainer.run(300)
        saved.append(trainer.rollout.state_dict())
        trainer.close()
    require_same(*saved)
