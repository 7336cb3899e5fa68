"""Batches whose fields become tensors when they are read: ``ArrayBatch`` of arrays on the CPU, for
compiled code; ``PackedBatch`` of one block of bytes, copied to a GPU in one transfer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rltrain.types import Batch

ALIGNMENT = 16
Decode = Callable[[str, Tensor], Tensor]
"""Converts a stored field to that of a batch."""
Form = Mapping[str, tuple[Sequence[int], np.dtype]]
"""Shape and dtype of fields by name."""


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


class FieldBytes(NamedTuple):
    """Position of a field in a block."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int
    stop: int


def is_packed_for(device: torch.device) -> bool:
    """Whether batches for this device are packed: on any device but the CPU."""
    return device.type != "cpu"


def array_form(fields: Mapping[str, np.ndarray]) -> Form:
    """Shapes and dtypes of arrays."""
    return {name: (x.shape, x.dtype) for name, x in fields.items()}


class BatchMemory:
    """Memory for the fields of a batch on the CPU, page-locked if a GPU reads it."""

    def __init__(self, form: Form, device: torch.device) -> None:
        places, end = [], 0
        for name, (shape, dtype) in form.items():
            stop = end + math.prod(shape) * dtype.itemsize
            places.append(FieldBytes(name, tuple(shape), getattr(torch, dtype.name), end, stop))
            end = -(-stop // ALIGNMENT) * ALIGNMENT
        self.places, self.device = tuple(places), device
        self.memory = torch.empty(end, dtype=torch.uint8, pin_memory=device.type == "cuda")
        block = self.memory.numpy()
        self.arrays = {
            p.name: block[p.start : p.stop].view(form[p.name][1]).reshape(p.shape) for p in places
        }

    def fill(self, fields: Mapping[str, np.ndarray]) -> BatchMemory:
        """Write some of the fields."""
        for name, x in fields.items():
            self.arrays[name][...] = x
        return self

    def batch(self, decode: Decode, settings: Mapping[str, object]) -> PackedBatch:
        """The batch on the device, without waiting for the transfer."""
        packed = self.memory.to(self.device, non_blocking=True)
        return PackedBatch.of(packed, self.places, decode, settings)


class PackedBatch(Batch):
    """A batch whose fields are in a block on the device; reading a field makes it a tensor and
    decodes it. ``dataclasses.replace`` returns a batch without a block or ``layout``.
    """

    packed: Tensor  # [bytes] uint8
    places: tuple[FieldBytes, ...]
    decode: Decode
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        packed: Tensor,
        places: tuple[FieldBytes, ...],
        decode: Decode,
        settings: Mapping[str, object],
    ) -> PackedBatch:
        """A batch with the fields at ``places`` and the unpacked ``settings``."""
        batch = cls.__new__(cls)
        own = {"packed": packed, "places": places, "decode": decode, "settings": settings}
        vars(batch).update(settings, layout=(places, *_described(settings)), **own)
        if "hidden" not in settings and any(place.name == "hidden" for place in places):
            batch.__getattr__("hidden")  # else it is the default, None
        return batch

    def __getattr__(self, name: str) -> Tensor:
        """A field on its first access."""
        for place in vars(self).get("places", ()):
            if place.name == name:
                raw = self.packed[place.start : place.stop].view(place.dtype).view(place.shape)
                tensor = vars(self)[name] = self.decode(name, raw)
                return tensor
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def copy(self) -> PackedBatch:
        """A copy of the batch."""
        settings = {
            name: x.clone() if isinstance(x, Tensor) else x for name, x in self.settings.items()
        }
        return PackedBatch.of(self.packed.clone(), self.places, self.decode, settings)

    def overwrite(self, batch: PackedBatch) -> None:
        """Copy the values of a batch of the same layout."""
        self.packed.copy_(batch.packed)
        for name, x in batch.settings.items():
            if isinstance(x, Tensor):
                self.settings[name].copy_(x)


def _described(settings: Mapping[str, object]) -> list[tuple[object, ...]]:
    return [(n, x.shape, x.dtype) if isinstance(x, Tensor) else (n, x) for n, x in settings.items()]
