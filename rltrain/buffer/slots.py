"""Between acting, the step store and learning: what of a step is stored, how slots become tensors,
and how much memory they may take.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer.store import Store
from rltrain.common.memory import available_memory
from rltrain.common.number_types import Count
from rltrain.types import Steps

FREE_MEMORY_SHARE = 0.6
"""Share of the free memory that a replay may fill where ``max_bytes`` is null."""


def memory_cap(max_bytes: Count | None) -> int:
    """Bytes that a replay may keep."""
    return int(FREE_MEMORY_SHARE * available_memory()) if max_bytes is None else max_bytes


def fields_to_store(steps: Steps) -> dict[str, np.ndarray]:
    """The fields [T, E, …] of a store; a final slot holds no transition."""
    real = ~steps.last
    real_of = real[:, :, None]
    return {
        "obs": steps.obs,
        "avail_actions": steps.avail_actions,
        "state": steps.state,
        "last": steps.last,
        "action": np.where(real_of, steps.action, 0),
        "reward": np.where(real_of, steps.reward, 0),
        "terminated": steps.terminated & real,
    }


def gather(store: Store, name: str, rows: np.ndarray, device: torch.device) -> Tensor:
    """A field at ``rows`` as it is stored, on the device: converted there, it travels small."""
    shape = rows.shape + store.shapes[name]
    dtype = getattr(torch, store.arrays[name].dtype.name)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device=device)
    out = torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")
    store.read(name, rows, out=out.numpy())
    return out.to(device, non_blocking=True)


def observations(
    store: Store,
    lane: np.ndarray,
    start: np.ndarray,
    first: np.ndarray,
    rows: np.ndarray,
    n_frames: int,
    device: torch.device,
) -> Tensor:
    """Observations of windows, stacked: [T+1, B, N, n_frames * O0, …] float32.

    Args:
        store: holds every frame once.
        lane, start: [B], where each window begins.
        first: [B], the earliest slot of its episode that a stack may look back to.
        rows: [T+1, B] of the windows; padding stays zero.
        n_frames: observations in a stack.
        device: where the observations go.
    """
    if n_frames == 1:
        return gather(store, "obs", rows, device).to(torch.float32)
    number = start + np.arange(len(rows))[:, None]
    frames = store.frame_rows(lane, number, first, n_frames)  # [T+1, B, n_frames]
    frames[rows == store.padding] = store.padding
    return join_frames(gather(store, "obs", frames, device)).to(torch.float32)


def join_frames(frames: Tensor) -> Tensor:
    """[T, B, n_frames, N, *O] to [T, B, N, n_frames * O0, …], as the policy sees them."""
    return frames.transpose(2, 3).flatten(3, 4)
