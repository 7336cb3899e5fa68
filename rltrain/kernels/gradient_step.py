"""The gradient step of Adam on few weights, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from rltrain.algo.optimizer import GradientStep
from rltrain.types import LossResult, Number

PLAIN = {"weight_decay": 0, "amsgrad": False, "maximize": False, "decoupled_weight_decay": False}


def hooked(optimizer: Optimizer) -> bool:
    """Whether an optimizer's step calls hooks, or was replaced in this object."""
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    everywhere = _global_optimizer_pre_hooks or _global_optimizer_post_hooks
    return bool(own or everywhere) or "step" in vars(optimizer)


def adam_step(step: GradientStep, result: LossResult) -> tuple[Number, Number]:
    """``GradientStep.take``."""
    options: dict[str, Any] = step.optimizer.param_groups[0]
    lr, (beta1, beta2) = options["lr"], options["betas"]
    betas = 0.5 < beta1 < 1 and 0 < beta2 < 1  # below, PyTorch rounds in another order
    alone = step.sum_over_ranks is None
    if (
        not alone
        or not betas
        or hooked(step.optimizer)
        or isinstance(lr, Tensor)
        or any(options[k] != v for k, v in PLAIN.items())
    ):
        return GradientStep.take(step, result)
    from rltrain.kernels import gradient_step_kernel as kernel

    gradient, count = step.flat.gradient.numpy(), max(float(result.count), 1.0)
    source = gradient
    if result.gradient is not None:
        source, loss = result.gradient.numpy(), float(result.loss_sum) / count
    else:
        gradient.fill(0)
        mean = torch.as_tensor(result.loss_sum) / count
        if mean.requires_grad:  # else no step was learned from
            mean.backward()
        loss = float(mean.detach())
    moments, bound = step.moments, step.max_grad_norm
    n_steps = moments["step"].view(1).numpy()
    t = float(n_steps[0]) + 1
    norm, made = kernel.step(
        source,
        np.float32(1 if result.gradient is None else count),
        np.float32(loss),
        np.float32(-1 if bound is None else bound),
        gradient,
        (step.weights.numpy(), moments["exp_avg"].numpy(), moments["exp_avg_sq"].numpy(), n_steps),
        kernel.Adam(
            np.float32(lr / (1 - beta1**t)),
            np.float32(math.sqrt(1 - beta2**t)),
            np.float32(1 - beta1),
            np.float32(beta2),
            np.float32(1 - beta2),
            np.float32(options["eps"]),
        ),
    )
    return np.float32(not made), np.float32(norm)
