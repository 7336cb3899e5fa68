"""The gradient step of Adam on few weights, compiled."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from rltrain.algo.cpu_math import flushed_denormals
from rltrain.algo.optimizer import FEW_WEIGHTS, GradientStep, _Eager
from rltrain.kernels.module_watch import computes_plainly, replaced
from rltrain.types import LossResult, Number

ADAM = _Eager, torch.optim.Adam
"""Bases of the class that ``adam`` makes."""
PLAIN = {"weight_decay": 0, "amsgrad": False, "maximize": False, "decoupled_weight_decay": False}


def edited(step: GradientStep) -> str | None:
    """How a step of Adam was changed after it was made; None if it was not."""
    optimizer, kind = step.optimizer, type(step.optimizer)
    if kind.__bases__ != ADAM:
        return f"the optimizer of GradientStep was replaced by {kind.__name__}"
    if reasons := replaced(step):
        return reasons[0]
    if inspect.unwrap(torch.optim.Adam.step).__module__ != torch.optim.Adam.__module__:
        return "torch.optim.Adam.step was replaced"
    if "step" in vars(optimizer):  # a learning-rate scheduler of torch does
        return f"{kind.__name__}.step was replaced in an object"
    own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    hooks = own or _global_optimizer_pre_hooks or _global_optimizer_post_hooks
    return f"a hook of {kind.__name__}" if hooks else None


def plain_adam(step: GradientStep) -> bool:
    """Whether the step of an optimizer that was Adam is nothing else, now; logs an edit, once."""
    if (reason := edited(step)) is not None:
        computes_plainly(reason)
        return False
    options: dict[str, Any] = step.optimizer.param_groups[0]
    beta1, beta2 = options["betas"]
    return (
        step.sum_over_ranks is None
        and step.begun
        and not step.misshapen
        and options["eps"] > 0
        and 0.5 < beta1 < 1  # below, PyTorch rounds in another order
        and 0 < beta2 < 1
        and not isinstance(options["lr"], Tensor)
        and all(options[k] == v for k, v in PLAIN.items())
    )


def compiled_take(step: GradientStep) -> Callable[..., tuple[Number, Number]] | None:
    """The counterpart of ``GradientStep.take`` of Adam on few weights in single precision."""
    weights = step.weights
    few = weights.is_cpu and weights.dtype == torch.float32 and weights.numel() < FEW_WEIGHTS
    return adam_step if few and type(step.optimizer).__bases__ == ADAM else None


def adam_step(step: GradientStep, result: LossResult) -> tuple[Number, Number]:
    """``GradientStep.take``."""
    gradient = result.gradient
    weights = step.weights
    fits = gradient is None or (gradient.shape, gradient.dtype) == (weights.shape, weights.dtype)
    if not (fits and plain_adam(step)):
        return GradientStep.take(step, result)
    adam = AdamStep(step)
    if gradient is not None:
        sums = np.array([float(result.loss_sum), float(result.count)])
        return adam(gradient.numpy(), sums)
    adam.gradient.fill(0)
    mean = torch.as_tensor(result.loss_sum) / max(float(result.count), 1.0)
    if mean.requires_grad:  # else no step was learned from
        mean.backward()
    return adam(adam.gradient, np.array([float(mean.detach()), 1.0]))


class AdamStep:
    """Steps of Adam on the arrays of a gradient step, while neither they nor its options change."""

    def __init__(self, step: GradientStep) -> None:
        options, moments = step.optimizer.param_groups[0], step.moments
        self.lr, (self.beta1, self.beta2) = options["lr"], options["betas"]
        rests = np.float32(1 - self.beta1), np.float32(self.beta2), np.float32(1 - self.beta2)
        self.constants = *rests, np.float32(options["eps"])
        self.bound = np.float32(-1 if step.max_grad_norm is None else step.max_grad_norm)
        self.gradient = step.flat.gradient.numpy()
        self.n_steps = moments["step"].view(1).numpy()
        arrays = step.weights, moments["exp_avg"], moments["exp_avg_sq"]
        self.state = (*(array.numpy() for array in arrays), self.n_steps)

    def __call__(self, source: np.ndarray, sums: np.ndarray) -> tuple[np.float32, np.float32]:
        """One step with the gradient ``source`` of a loss sum: ``GradientStep.take``.

        Args:
            sums: loss and count first.
        """
        from rltrain.kernels import gradient_step_kernel as kernel

        loss, count = (float(np.float32(x)) for x in sums[:2])
        count, t = max(count, 1.0), float(self.n_steps[0]) + 1
        adam = kernel.Adam(
            np.float32(self.lr / (1 - self.beta1**t)),
            np.float32(math.sqrt(1 - self.beta2**t)),
            *self.constants,
        )
        numbers = np.float32(count), np.float32(loss / count), self.bound
        with flushed_denormals():
            norm, made = kernel.step(source, *numbers, self.gradient, self.state, adam)
        return np.float32(not made), np.float32(norm)
