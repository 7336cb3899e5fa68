"""Stored observations: partial images packed into bytes, and frame stacks."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rltrain.types import EnvSpec

Precision = Literal["float32", "float16"]


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
