"""Gradient steps without tensors: the same bits as the trainer's own loop makes."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rltrain
from rltrain.callback import Callback
from rltrain.kernels.learning import CompiledLearning
from rltrain.kernels.module_watch import CompiledMethod
from tests.helpers import require_same
from tests.integration.promises.envs import Images
from tests.marks import slow_except

COMMON = (
    *("tuned=none", "hardware.threads=1", "hardware.n_envs=2", "logger=[]"),
    *("algo.learning_starts=40", "algo.batch_size=16", "algo.network.hidden_sizes=[8]"),
    *("test.interval=10_000", "test.episodes=1", "total_env_steps=10_000"),
    "algo.updates_per_env_step=1",
)
NO_RATIO = "algo.updates_per_episode=null"
RUNS = {
    "dqn": ("algo=dqn", "algo.target_update.env_steps=7"),
    "tau": ("algo=dqn", "algo.target_update.env_steps=1", "algo.target_update.tau=0.1"),
    "n_step": ("algo=dqn", "algo.loss.n_step=3", "algo.max_grad_norm=0.5"),
    "normalize_obs": ("algo=dqn", "algo.network.normalize_obs=true"),
    "dueling": ("algo=dqn", "algo.network.dueling=true", "algo.network.layer_norm=true"),
    "lr_factors": ("algo=dqn", "algo.lr_factors=[[0,1],[60,0.1]]"),
    "prioritized": ("algo=dqn", "buffer=prioritized"),
    "td_error": ("algo=dqn", "buffer=prioritized", "buffer.initial_priority=td_error"),
    "c51": ("algo=c51", "algo.distribution.v_min=-20", "algo.distribution.v_max=20"),
    "qrdqn": ("algo=qrdqn", "algo.distribution.quantiles=5"),
    "iqn": ("algo=iqn",),
    "noisy": ("algo=noisy",),
    "rainbow": ("algo=rainbow",),
    "sequence": ("algo=dqn", "buffer=sequence", "buffer.sequence_length=3"),
    "images": ("algo=dqn", "algo/network=conv", "algo.network.filters=[[4,3,2]]"),
    "inputs": (
        *("algo=dqn", "env.frame_stack=2", "buffer.precision=float16"),
        "algo.network.last_action=true",
    ),
    "team": (
        *("algo=iql", "algo/network=mlp", "env=two_step", "buffer=replay", NO_RATIO),
        *("algo.network.agent_id=true", "algo/optimizer=adam"),
    ),
}
FAST = ("tau", "lr_factors", "td_error", "iqn", "rainbow", "images", "inputs", "team")
"""Rainbow has what others have alone."""


class FloatingImages(Images):
    """Images of numbers from 0 to 1, which are stored as batches have them."""

    observation_space = spaces.Box(0, 1, (6, 6, 1), np.float32)

    def seen(self) -> np.ndarray:
        return super().seen().astype(np.float32) / 255


def made(words: tuple[str, ...], folder: Any, **more: Any) -> Any:
    env: tuple[str, ...] = ("env=cartpole",)
    if "algo/network=conv" in words:
        env, more = (), {**more, "env": FloatingImages}
    if any(word.startswith("env=") for word in words):
        env = ()
    return rltrain.make_trainer([*env, *COMMON, *words], run_dir=folder, **more)


def played(trainer: Any, plain: bool, until: int = 90) -> dict[str, Any]:
    """Everything that a run of so many env steps leaves."""
    if plain:
        vars(trainer).pop("learn")
    torch.manual_seed(0)  # of noise, one generator for both trainers
    with trainer.reporting_exceptions():
        trainer.start()
        trainer.run(until)
    saved = {
        "learner": trainer.learner.state_dict(),
        "draws": trainer.buffer.rng.bit_generator.state,
        "priorities": trainer.buffer.starts.state_dict(),
        "metrics": trainer.metrics.state_dict(),
        "clock": trainer.clock,
    }
    trainer.close()
    return saved


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", slow_except(FAST, RUNS))
def test_every_bit_is_that_of_the_plain_loop(name, tmp_path, monkeypatch):
    ours, theirs = (made(RUNS[name], tmp_path / run) for run in ("ours", "theirs"))
    assert isinstance(vars(ours)["learn"], CompiledMethod)
    n_compiled = []
    learn = CompiledLearning._learn
    monkeypatch.setattr(CompiledLearning, "_learn", lambda *x: (n_compiled.append(x[2]), learn(*x)))
    compiled = played(ours, plain=False)
    assert sum(n_compiled) == compiled["clock"].updates
    require_same(compiled, played(theirs, plain=True))
    assert compiled["clock"].updates > 40


@pytest.mark.parametrize(
    "words",
    [
        ("algo=dqn", "hardware.kernels=torch"),
        ("algo=munchausen_dqn",),
        ("algo=dqn", "algo/optimizer=rmsprop"),
        ("algo=dqn", "algo.reward_norm=scale"),
    ],
    ids=lambda words: words[-1],
)
def test_other_parts_keep_the_plain_loop(words, tmp_path):
    trainer = made(words, tmp_path / "run")
    assert "learn" not in vars(trainer)
    trainer.close()


class SeesBatches(Callback):
    def __init__(self) -> None:
        self.n = 0

    def on_batch(self, trainer: Any, value: Any) -> Any:
        self.n += 1
        return value


class SeesUpdates(Callback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_update(self, trainer: Any, value: Any) -> Any:
        assert isinstance(value.priority, torch.Tensor)
        self.seen.append(float(value.metrics["grad_norm"]))
        return value._replace(metrics={**value.metrics, "mine": 3.0})


def test_callbacks_see_every_batch_and_every_update(tmp_path):
    batches, updates = SeesBatches(), SeesUpdates()
    first = made(RUNS["dqn"], tmp_path / "a", callbacks=[batches])
    n_updates = played(first, plain=False)["clock"].updates
    assert batches.n == n_updates > 40
    second = made(RUNS["dqn"], tmp_path / "b", callbacks=[updates])
    saved = played(second, plain=False)
    assert len(updates.seen) == n_updates
    assert saved["metrics"]["counts"]["learn/mine"] > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "change", ["update", "sample", "loss", "hook", "optimizer", "grad hook", "class"]
)
def test_what_is_replaced_or_hooked_later_takes_effect(change, tmp_path, monkeypatch):
    """Also of a run that has started."""
    trainer, calls = made(RUNS["dqn"], tmp_path / "run"), []
    trainer.start()
    trainer.run(80)
    learner, buffer = trainer.learner, trainer.buffer
    if change == "update":
        update = learner.update
        learner.update = lambda *given: (calls.append(1), update(*given))[1]
    elif change == "class":
        update = type(learner).update
        counted = lambda *given: (calls.append(1), update(*given))[1]  # noqa: E731
        monkeypatch.setattr(type(learner), "update", counted)
    elif change == "sample":
        sample = buffer.sample
        buffer.sample = lambda *given: (calls.append(1), sample(*given))[1]
    elif change == "loss":
        loss = learner.loss
        learner.loss = lambda *given: (calls.append(1), loss(*given))[1]
    elif change == "hook":
        learner.online.agents.head.register_forward_hook(lambda *given: calls.append(1))
    elif change == "grad hook":
        weight = next(learner.online.agents.parameters())
        weight.register_hook(lambda gradient: calls.append(1))
    else:
        learner.optimizer.register_step_post_hook(lambda *given: calls.append(1))
    before = trainer.clock.updates
    trainer.run(100)
    assert len(calls) >= trainer.clock.updates - before > 10
    trainer.close()


def test_an_update_that_is_not_finite_changes_nothing(tmp_path):
    trainer = made(RUNS["dqn"], tmp_path / "run")
    trainer.start()
    trainer.run(80)
    before = trainer.learner.gradient_step.weights.clone()
    trainer.buffer.store.arrays["reward"][:] = np.inf
    trainer.run(90)
    assert torch.equal(before, trainer.learner.gradient_step.weights)
    assert trainer.metrics.sums["learn/skipped_updates"] > 0
    trainer.close()


def test_a_stored_action_out_of_range_is_named(tmp_path):
    trainer = made(RUNS["dqn"], tmp_path / "run")
    trainer.start()
    trainer.run(80)
    trainer.buffer.store.arrays["action"][:] = 7
    with pytest.raises(ValueError, match=r"batch\.action: expected numbers from 0 to 1"):
        trainer.run(100)
    trainer.close()
