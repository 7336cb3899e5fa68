"""Fields of a stored time step: names, shapes, types, memory; observations packed into bytes, and
frame stacks. To add a field, extend ``step_fields``.
"""

from __future__ import annotations

import math
import mmap
import platform
from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from rich.filesize import decimal
from torch import Tensor

from rltrain.types import EnvSpec

TRANSITION = ("action", "reward", "terminated")
"""Fields of a transition: zero at final steps, which have none."""
Fields = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""Shape and stored type of the fields of a time step, by name."""
Precision = Literal["float32", "float16"]
LINUX = platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")
NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if LINUX else 0)
"""A flag that Python names since 3.13."""


def step_fields(
    spec: EnvSpec, precision: Precision, hidden_dim: int = 0, keeps_values: bool = False
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and stored type of every field of a time step; ``hidden`` only if H is not 0,
    ``values`` only if kept.
    """
    n_agents, real = spec.n_agents, np.dtype(precision)
    sizes = ((1 << 8, np.uint8), (1 << 15, np.int16), (1 << 31, np.int32))
    action = np.dtype(next(kind for most, kind in sizes if spec.n_actions <= most))
    obs = (n_agents, *spec.obs_shape), np.dtype(np.uint8 if spec.obs_dtype == "uint8" else real)
    if spec.obs_bytes:
        obs = (n_agents, PackedObs(spec, precision).n_bytes), np.dtype(np.uint8)
    fields = {
        "obs": obs,
        "avail_actions": ((n_agents, spec.n_actions), np.dtype(np.bool_)),
        "state": ((spec.state_dim,), real),
        "last": ((), np.dtype(np.bool_)),
        "action": ((n_agents,), action),
        "reward": ((spec.n_rewards,), np.dtype(np.float32)),
        "terminated": ((), np.dtype(np.bool_)),
    }
    if hidden_dim:
        fields["hidden"] = ((n_agents, hidden_dim), np.dtype(np.float32))
    if keeps_values:
        fields["values"] = ((n_agents, 2), np.dtype(np.float32))
    return fields


def n_bytes(fields: Fields) -> int:
    """Bytes of one time step with these fields."""
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in fields.values())


def zeroed(n_rows: int, like: np.ndarray) -> np.ndarray:
    """Zeros with ``n_rows`` rows like ``like``, whose pages use no memory until written."""
    width, dtype = like.shape[1], like.dtype
    n_bytes = n_rows * width * dtype.itemsize
    if n_bytes == 0:
        return np.zeros((n_rows, width), dtype)
    try:
        pages = mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    except OSError as error:
        raise RuntimeError(
            f"the buffer could not reserve {decimal(n_bytes)} of address space ({error}): "
            "lower buffer.max_bytes."
        ) from error
    return np.frombuffer(pages, dtype, n_rows * width).reshape(n_rows, width)


class PackedObs:
    """Flat observations [..., D] as bytes [..., n_bytes]: first the columns of ``spec.obs_bytes``,
    one byte each, then the other numbers in ``precision``. Pixels are restored exactly.
    """

    def __init__(self, spec: EnvSpec, precision: Precision | np.dtype) -> None:
        (self.width,), self.pixels = spec.obs_shape, spec.obs_bytes
        edges = [0, *(edge for start, stop, _ in self.pixels for edge in (start, stop)), self.width]
        self.others = [pair for pair in list(pairwise(edges))[::2] if pair[0] < pair[1]]
        self.real = np.dtype(precision)
        self.n_pixels = sum(stop - start for start, stop, _ in self.pixels)
        self.n_bytes = self.n_pixels + (self.width - self.n_pixels) * self.real.itemsize

    def pack(self, obs: np.ndarray) -> np.ndarray:
        """[..., D] float32 to [..., n_bytes] uint8."""
        parts = [np.rint(obs[..., a:b] / np.float32(scale)) for a, b, scale in self.pixels]
        others = [obs[..., a:b] for a, b in self.others]
        packed = [part.astype(np.uint8) for part in parts]
        if others:
            packed.append(np.concatenate(others, -1).astype(self.real).view(np.uint8))
        return np.concatenate(packed, -1)

    def unpack(self, packed: Tensor) -> Tensor:
        """[..., n_bytes] uint8 to [..., D] float32, on the same device."""
        obs = torch.empty(*packed.shape[:-1], self.width, device=packed.device)
        at = 0
        for start, stop, scale in self.pixels:
            pixels = packed[..., at : at + stop - start]
            torch.mul(pixels, scale, out=obs[..., start:stop])
            at += stop - start
        if self.others:  # copied for alignment
            copied = packed[..., at:].clone(memory_format=torch.contiguous_format)
            others, at = copied.view(getattr(torch, self.real.name)), 0
            for start, stop in self.others:
                obs[..., start:stop] = others[..., at : at + stop - start]
                at += stop - start
        return obs


def join_frames(frames: Tensor) -> Tensor:
    """[T, B, n_frames, N, *O] to [T, B, N, n_frames * O0, …], the policy's input."""
    return frames.transpose(2, 3).flatten(3, 4)
