"""ArrayBatch: a batch on the CPU without tensors, for compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.types import Batch


# twin: kernels/learning.py
class ArrayBatch(Batch):
    """A batch of NumPy arrays; reading a field makes it a tensor with the same memory."""

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], **settings: Any) -> ArrayBatch:
        """A batch with the fields ``arrays`` and the non-array ``settings``."""
        batch = cls.__new__(cls)
        vars(batch).update(settings, arrays=arrays)
        if "hidden" in arrays:
            batch.__getattr__("hidden")  # else it is the default, None
        return batch

    def __getattr__(self, name: str) -> Tensor:
        """A field on its first access."""
        arrays = vars(self).get("arrays", {})
        if name not in arrays:
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        tensor = vars(self)[name] = torch.from_numpy(arrays[name])
        return tensor


def cpu_arrays(batch: Batch, names: Sequence[str]) -> Iterator[np.ndarray]:
    """Fields of a batch on the CPU."""
    if batch.arrays is None:
        return (getattr(batch, name).numpy() for name in names)
    return map(batch.arrays.__getitem__, names)
