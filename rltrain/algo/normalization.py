"""Running mean and variance: of observations, stored in the network that uses them, and of training
rewards.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.common.number_types import saved_array
from rltrain.types import Batch, EnvSpec

CLIP = 10.0
"""Normalized observations are clipped to ± this."""
EPSILON = 1e-8
"""Added to variances: constant features become 0."""
Kind = Literal["scale", "standardize"]
SAME = 1e-12
"""Rewards whose variance is at most this fraction of their squared mean are constant except for
rounding errors, and are not divided.
"""


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


class RewardNorm:
    """Divides rewards by their running standard deviation, and with ``standardize`` first subtracts
    their running mean, per stream (EPyMARL's ``standardise_rewards``).

    Moments are those of the transitions sampled so far, without padding. If episodes differ in
    length, subtracting the mean changes the task: it is a bonus or penalty per step.
    """

    def __init__(self, *, kind: Kind, n_rewards: int, device: torch.device) -> None:
        self.kind = kind
        self.count = torch.zeros(n_rewards, dtype=torch.float64, device=device)
        self.mean, self.squares = torch.zeros_like(self.count), torch.zeros_like(self.count)

    def __call__(self, batch: Batch) -> Batch:
        """Add the batch's rewards to the moments and return it with normalized rewards."""
        self._update(batch)
        same = self.squares <= SAME * self.count * self.mean.square()
        variance = torch.where(same, 1.0, self.squares / self.count.clamp(min=1))
        shift = torch.zeros_like(self.mean) if self.kind == "scale" else self.mean
        if self._has_agents(batch):  # [B, 1], for the agent of each window
            variance, shift = variance[batch.agent], shift[batch.agent]
        reward = (batch.reward.double() - shift) / (variance + EPSILON).sqrt()
        return replace(batch, reward=reward.to(batch.reward.dtype))

    def _update(self, batch: Batch) -> None:
        """Merge the moments of a batch (Chan, Golub and LeVeque 1983, equations 1.4 and 1.5)."""
        reward = batch.reward.double()  # [T, B, R]
        seen = reward.isfinite()
        if batch.learned is not None:
            seen &= batch.learned.unsqueeze(-1)
        if len(self.count) > 1:  # absent agents see zeros and have one action
            sees = batch.obs[:-1].flatten(3).any(-1)
            seen = seen & (sees | (batch.avail_actions[:-1].sum(-1) > 1))
        if self._has_agents(batch):
            streams = torch.arange(len(self.count), device=reward.device)
            seen = seen & (batch.agent == streams)  # [T, B, R]
        reward, n = torch.where(seen, reward, 0), seen.sum((0, 1)).double()  # [R]
        mean = reward.sum((0, 1)) / n.clamp(min=1)
        squares = torch.where(seen, reward - mean, 0).square().sum((0, 1))
        distance, total = mean - self.mean, (self.count + n).clamp(min=1)
        self.squares += squares + distance.square() * self.count * n / total
        self.mean += distance * n / total
        self.count += n

    def _has_agents(self, batch: Batch) -> bool:
        """Whether each window shows one agent, with only its own reward stream."""
        return batch.agent is not None and batch.reward.shape[-1] < len(self.count)

    def state_dict(self) -> dict[str, Tensor]:
        """Count, mean and sum of squared distances, by name."""
        return {name: getattr(self, name).clone() for name in ("count", "mean", "squares")}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from ``state_dict``; ValueError for what are no moments."""
        for name in ("count", "mean", "squares"):
            own = getattr(self, name)
            low = -math.inf if name == "mean" else 0
            saved_array(f"reward_norm.{name}", state[name].cpu(), own.cpu().numpy(), low)
            own.copy_(state[name])
