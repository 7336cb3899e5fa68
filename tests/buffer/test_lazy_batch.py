"""Batches of arrays: tensors when read, of the same memory; plain batches when changed. Packed ones
for other devices hold what batches on the CPU hold.
"""

from contextlib import closing
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.algo.checks import batch_layout
from rltrain.buffer import episode, lazy_batch
from rltrain.buffer.lazy_batch import ArrayBatch, BatchMemory, PackedBatch, cpu_arrays
from rltrain.types import Batch, Clock

REWARD = np.ones((1, 2, 1), np.float32)


def test_a_field_becomes_a_tensor_of_the_same_memory():
    batch = ArrayBatch.of({"reward": REWARD.copy()}, hidden=None)
    assert batch.hidden is None
    batch.reward[0, 0] = 3
    assert batch.arrays["reward"][0, 0] == 3
    assert next(cpu_arrays(batch, ["reward"])) is batch.arrays["reward"]


def test_changed_fields_reach_compiled_code():
    batch = ArrayBatch.of(dict.fromkeys(Batch.__dataclass_fields__, REWARD))
    changed = replace(batch, reward=torch.zeros(1, 2, 1))
    assert not next(cpu_arrays(changed, ["reward"])).any()
    assert next(cpu_arrays(batch, ["reward"])).all()


def test_an_unknown_field_is_named():
    with pytest.raises(AttributeError, match="ArrayBatch has no attribute rewards"):
        ArrayBatch.of({"reward": REWARD}).rewards  # noqa: B018


RUN = [
    *("total_env_steps=200", "test.episodes=2", "test.n_envs=1"),
    *("algo.batch_size=8", "hardware.n_envs=3", "hardware.threads=1", "hardware.kernels=torch"),
    *("logger=[]", "logger.console=false"),
]
CASES = (
    "algo=qmix",
    "algo=qmix buffer.precision=float16",
    "algo=vdn buffer=prioritized_episode",
    "algo=dqn env=cartpole algo/network=mlp",
    "algo=rainbow env=cartpole algo/network=mlp env.frame_stack=3",
    "algo=r2d2 env=cartpole buffer.first_hidden=stored buffer.burn_in=2 buffer.sequence_length=4",
    "algo=iql buffer=sequence buffer.agents=independent buffer.sequence_length=2 buffer.burn_in=0",
    "algo=dqn env=cartpole algo/network=mlp buffer.storage=disk",
    "algo=pqn env=cartpole algo/network=mlp",
    "algo=pqn env=cartpole algo/network=mlp env.frame_stack=2",
)


def batches(overrides, folder, n=3):
    """The batches of a small run, which learns nothing."""
    given = [*RUN, *overrides.split(), *["env=two_step"] * ("env=" not in overrides)]
    with closing(rltrain.make_trainer(given, run_dir=folder)) as trainer:
        trainer.learn = lambda n_updates: None
        trainer.run(60)
        return [trainer.buffer.sample(8, Clock()) for _ in range(n)]


def tensors(batch):
    return {f.name: getattr(batch, f.name) for f in fields(Batch)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("overrides", CASES)
def test_a_packed_batch_holds_what_a_batch_on_the_cpu_holds(overrides, tmp_path, monkeypatch):
    plain = batches(overrides, tmp_path / "plain")
    monkeypatch.setattr(lazy_batch, "is_packed_for", lambda device: True)
    packed = batches(overrides, tmp_path / "packed")
    for one, other in zip(plain, packed, strict=True):
        assert isinstance(other, PackedBatch) or "independent" in overrides
        found = tensors(other)
        for name, value in tensors(one).items():
            if isinstance(value, torch.Tensor):
                assert found[name].dtype == value.dtype, name
                assert torch.equal(found[name], value), name
            else:
                assert found[name] == value, name


def test_a_batch_can_be_copied_overwritten_and_replaced():
    def made(value):
        arrays = {"reward": np.full((2, 3, 1), value, np.float32), "last": np.zeros((3, 3), bool)}
        block = BatchMemory(lazy_batch.array_form(arrays), torch.device("cpu")).fill(arrays)
        return block.batch(lambda name, x: x, {"td_target": torch.full((2,), value), "eta": 0.0})

    one, two = made(1.0), made(2.0)
    copy = one.copy()
    assert batch_layout(copy) == batch_layout(one) == batch_layout(two)
    one.overwrite(two)
    assert one.reward.unique().tolist() == one.td_target.unique().tolist() == [2.0]
    assert copy.reward.unique().tolist() == copy.td_target.unique().tolist() == [1.0]
    with pytest.raises(AttributeError, match="no attribute nothing"):
        _ = one.nothing


def test_a_field_can_be_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(lazy_batch, "is_packed_for", lambda device: True)
    (batch,) = batches("algo=qmix", tmp_path, n=1)
    other = replace(batch, reward=batch.reward + 1)
    assert torch.equal(other.reward, batch.reward + 1)
    assert torch.equal(other.obs, batch.obs)
    assert batch_layout(other) != batch_layout(batch)
    assert len(batch_layout(other)) == len(batch_layout(replace(other)))


def test_on_a_gpu_lengths_are_multiples_and_the_loss_is_the_same(tmp_path, monkeypatch):
    with closing(
        rltrain.make_trainer([*RUN, "algo=qmix", "env=two_step"], run_dir=tmp_path)
    ) as trainer:
        trainer.run(60)
        state, learner = trainer.buffer.rng.bit_generator.state, trainer.learner
        results = []
        for multiple in (1, episode.LENGTHS_ON_GPU):
            trainer.buffer.rng.bit_generator.state = state
            trainer.buffer._multiple = multiple
            batch = trainer.buffer.sample(8, Clock())
            assert len(batch.action) % multiple == 0
            result = learner.loss(learner.online, learner.target, batch, Clock())
            learner.gradient_step.flat.gradient.zero_()
            result.loss_sum.backward()
            results.append((result.priority, learner.gradient_step.flat.gradient.clone()))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other, one)
