"""Stacks of linear layers with ReLU as one node of the autograd graph.

Small networks spend more time between operations than in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rltrain.algo.network.layers import Layers
from rltrain.kernels.watch import ModuleWatch


def forward(watch: ModuleWatch, layers: Layers, x: Tensor) -> Tensor:
    """``Layers.forward``: [..., n_in] to [..., n_out]."""
    if not watch.plain():
        return cast(Tensor, Layers.forward(layers, x))
    y = dense(x.flatten(0, -2), layers.linear, layers.ends_in_relu)
    return y if x.dim() == 2 else y.view(*x.shape[:-1], -1)


def dense(x: Tensor, layers: list[nn.Linear], ends_in_relu: bool) -> Tensor:
    """ReLU between ``layers``, and after the last one if asked for: [X, n_in] to [X, n_out]."""
    weights = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
    if torch.is_grad_enabled():
        return cast(Tensor, _Dense.apply(x, ends_in_relu, *weights))
    return _values(x, ends_in_relu, weights)[-1]


def _values(x: Tensor, ends_in_relu: bool, weights: Sequence[Tensor]) -> list[Tensor]:
    """The values after every layer, the input first."""
    values = [x]
    for i in range(0, len(weights), 2):
        x = torch.addmm(weights[i + 1], x, weights[i].t())
        if ends_in_relu or i < len(weights) - 2:
            x = x.relu_()
        values.append(x)
    return values


class _Dense(torch.autograd.Function):
    """h_i = relu(h_{i-1} W_i' + b_i), without the relu for the last one if it ends so."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ends_in_relu: bool, *weights: Tensor) -> Tensor:
        values = _values(x, ends_in_relu, weights)
        ctx.save_for_backward(*values, *weights[::2])
        ctx.ends_in_relu = ends_in_relu
        return values[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        n = len(ctx.saved_tensors) // 2
        values, weights = ctx.saved_tensors[: n + 1], ctx.saved_tensors[n + 1 :]
        of_weights: list[Tensor] = []
        for i in range(n - 1, -1, -1):
            if ctx.ends_in_relu or i < n - 1:
                grad = torch.ops.aten.threshold_backward(grad, values[i + 1], 0)
            of_weights = [grad.t().mm(values[i]), grad.sum(0), *of_weights]
            if i > 0 or ctx.needs_input_grad[0]:
                grad = grad.mm(weights[i])
        return (grad if ctx.needs_input_grad[0] else None, None, *of_weights)
