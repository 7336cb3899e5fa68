"""A batch of arrays: tensors when read, of the same memory; a plain batch when changed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rltrain.buffer.array_batch import ArrayBatch, cpu_arrays
from rltrain.types import Batch

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
