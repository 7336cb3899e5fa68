"""A learning step of plain feed-forward agents, compiled: values, TD errors and gradient in one."""

from __future__ import annotations

import numpy as np
import torch

from rltrain.algo.kernels import td_step_kernel
from rltrain.algo.kernels.feed_forward import Stack
from rltrain.types import Batch, Result

NAMES = "loss", "", "td_error_abs", "q_taken_mean", "target_mean"


def td_step(
    online: Stack, target: Stack, batch: Batch, rule: tuple[np.float32, bool, int, np.float32]
) -> Result:
    """What ``TDLoss`` says of independent agents whose values are those of a stack of layers.
    ``rule``: discount, double Q-learning, rewards summed, Huber's bound or -1.

    Raises:
        IndexError: sizes that do not fit, or an action that is none.
    """
    flat = online.weights()
    gradient = np.empty_like(flat)
    priority = np.zeros(len(batch.weight), np.float32)
    sums = np.zeros(5)
    fits = td_step_kernel.step(
        batch.obs.flatten(3).numpy(),
        len(batch.action) if batch.mask_end is None else batch.mask_end,
        flat,
        target.weights(),
        online.shapes,
        online.cut,
        rule,
        batch.avail_actions.numpy(),
        batch.action.numpy(),
        batch.reward.numpy(),
        batch.terminated.numpy(),
        batch.last.numpy(),
        batch.mask.numpy(),
        batch.weight.numpy(),
        np.float32(batch.eta),
        gradient,
        priority,
        sums,
    )
    if not fits:
        raise IndexError("the batch does not fit the network, or an action is out of range")
    loss_sum, count, *_ = torch.from_numpy(sums.astype(np.float32)).unbind()
    means = torch.from_numpy((sums / max(sums[1], 1)).astype(np.float32)).unbind()
    metrics = {name: mean for name, mean in zip(NAMES, means, strict=True) if name}
    known = torch.from_numpy(gradient)
    return Result(loss_sum, count, torch.from_numpy(priority), metrics, known)
