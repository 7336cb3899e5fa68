"""A learning step of plain feed-forward agents, compiled: values, TD errors and gradient in one."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from rltrain.algo import td_kernel
from rltrain.algo.window import zero_outside
from rltrain.types import Batch, Result

NAMES = "loss", "", "td_error_abs", "q_taken_mean", "target_mean"


def td_step(
    online: list[nn.Linear],
    target: list[nn.Linear],
    batch: Batch,
    rule: tuple[np.float32, bool, int, np.float32],
) -> Result:
    """What ``TDLoss`` says of independent agents whose values are ``online`` layers with ReLU
    between them. ``rule``: discount, double Q-learning, rewards summed, Huber's bound or -1.
    """
    flat, target_flat = flat_view(online), flat_view(target)
    sizes = np.array([online[0].in_features, *(layer.out_features for layer in online)])
    gradient = np.empty_like(flat)
    priority = np.zeros(len(batch.weight), np.float32)
    sums = np.zeros(5)
    td_kernel.step(
        zero_outside(batch.obs, batch.real).flatten(3).numpy(),
        flat,
        target_flat,
        sizes,
        rule,
        batch.avail_actions.numpy(),
        batch.action.numpy(),
        batch.reward.numpy(),
        batch.terminated.numpy(),
        batch.last.numpy(),
        batch.mask.numpy(),
        batch.weight.numpy(),
        gradient,
        priority,
        sums,
    )
    loss_sum, count, *_ = torch.from_numpy(sums.astype(np.float32)).unbind()
    means = torch.from_numpy((sums / max(sums[1], 1)).astype(np.float32)).unbind()
    metrics = {name: mean for name, mean in zip(NAMES, means, strict=True) if name}
    known = torch.from_numpy(gradient)
    return Result(loss_sum, count, torch.from_numpy(priority), metrics, known)


def flat_view(layers: list[nn.Linear]) -> np.ndarray:
    """The weights of layers as one array, W_1, b_1, W_2, …; a copy unless they lie so in memory."""
    weights = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
    n, first = sum(tensor.numel() for tensor in weights), weights[0].detach()
    end = first.data_ptr()
    for tensor in weights:
        if tensor.data_ptr() != end:
            return torch.cat([tensor.detach().flatten() for tensor in weights]).numpy()
        end += tensor.numel() * tensor.element_size()
    return first.as_strided((n,), (1,)).numpy()
