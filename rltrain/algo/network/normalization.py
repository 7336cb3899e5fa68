"""Running mean and variance of observations, stored in the network that uses them."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.types import EnvSpec

CLIP = 10.0
"""Normalized observations are clipped to ± this."""
EPSILON = 1e-8
"""Added to variances: constant features become 0."""


class RunningNorm(nn.Module):
    """(x - mean) / sqrt(variance) per feature, clipped to ± 10, with the statistics of the
    observations passed to ``update``. All agents and stacked frames share them.

    There is one per run: copies of a network (target, noisy) share it.
    """

    count: Tensor  # [] observations seen, float64
    mean: Tensor  # [D] float64
    squares: Tensor  # [D] float64, the sum of squared distances to the mean
    shift: Tensor  # [D * frame_stack]
    scale: Tensor  # [D * frame_stack]

    def __init__(self, *, spec: EnvSpec) -> None:
        super().__init__()
        self.n_frames, n_features = spec.frame_stack, math.prod(spec.obs_shape)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        for name in ("mean", "squares"):
            self.register_buffer(name, torch.zeros(n_features, dtype=torch.float64))
        for name, value in (("shift", 0.0), ("scale", 1 / np.sqrt(1 + EPSILON))):
            full = torch.full((n_features * self.n_frames,), value)
            self.register_buffer(name, full, persistent=False)
        self.register_load_state_dict_post_hook(RunningNorm._refresh)

    # twin: kernels/acting.py
    def forward(self, x: Tensor) -> Tensor:
        """Observations [..., D * frame_stack], normalized."""
        return ((x - self.shift) * self.scale).clamp(-CLIP, CLIP)

    def update(self, obs: np.ndarray) -> None:
        """Add observations [..., N, *O], single frames (Chan, Golub and LeVeque 1983, Am. Stat. 37,
        equations 1.4 and 1.5; Welford's method for many at once).
        """
        seen = obs.reshape(-1, self.mean.numel()).astype(np.float64)
        n = len(seen)
        if n == 0:
            return
        count, old = float(self.count), self.mean.cpu().numpy()
        mean = seen.sum(0) / n
        seen -= mean
        distance = mean - old
        squares = np.square(seen, out=seen).sum(0) + distance**2 * (count * n / (count + n))
        self.count.add_(n)
        self.mean.copy_(torch.from_numpy(old + distance * (n / (count + n))))
        self.squares.copy_(self.squares.cpu() + torch.from_numpy(squares))
        self._refresh()

    @property
    def variance(self) -> np.ndarray:
        """[D], of the observations seen; 1 for fewer than two."""
        count, squares = float(self.count), self.squares.cpu().numpy()
        return squares / count if count >= 2 else np.ones_like(squares)

    def _refresh(self, keys: object = None) -> None:
        """Compute shift and scale from the statistics; ``keys`` is unused (a PyTorch hook)."""
        shift, scale = self.mean.cpu().numpy(), 1 / np.sqrt(self.variance + EPSILON)
        for buffer, values in ((self.shift, shift), (self.scale, scale)):
            buffer.copy_(torch.from_numpy(np.tile(values, self.n_frames)))

    def separate(self) -> RunningNorm:
        """A copy with separate statistics, for older weights."""
        other = copy.copy(self)
        other._buffers = {name: copy.deepcopy(buffer) for name, buffer in self._buffers.items()}
        return other

    def __deepcopy__(self, memo: dict[int, object]) -> RunningNorm:
        return self
