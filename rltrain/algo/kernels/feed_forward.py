"""Networks that are nothing but layers with ReLU between them, as compiled code takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import nn

Layer = nn.Linear | nn.Conv2d


class Stack:
    """Layers of the trunk, which ends in a ReLU, and of the head's one or two streams.

    ``shapes`` and ``cut`` are what ``stack_kernel`` wants to know. ``sides`` [height, width] are
    those of the images that come in; convolutions come first, with square kernels.
    """

    def __init__(
        self,
        trunk: Sequence[Layer],
        advantage: Sequence[Layer],
        value: Sequence[Layer],
        sides: tuple[int, int] = (0, 0),
    ) -> None:
        self.layers: list[Layer] = [*trunk, *advantage, *value]
        self.cut = (len(trunk), len(advantage)) if value else (len(trunk) + len(advantage), 0)
        rows = []
        height, width = sides
        first, image = self.layers[0], height * width
        self.n_inputs = (
            first.in_channels * image if isinstance(first, nn.Conv2d) else first.in_features
        )
        for layer in self.layers:
            fan_in = layer.weight[0].numel()
            if isinstance(layer, nn.Conv2d):
                kernel, stride = layer.kernel_size[0], layer.stride[0]
                rows.append(
                    (fan_in, layer.out_channels, layer.in_channels, height, width, kernel, stride)
                )
                height, width = ((side - kernel) // stride + 1 for side in (height, width))
            else:
                rows.append((fan_in, layer.out_features, 0, 0, 0, 0, 0))
        self.shapes = np.array(rows)

    @property
    def compiles(self) -> bool:
        """Whether the weights lie where compiled code can take them."""
        weight = self.layers[0].weight
        return weight.is_cpu and weight.dtype == torch.float32

    def output(self, x: torch.Tensor) -> torch.Tensor:
        """[X, …] to [X, A], without a gradient.

        Raises:
            ValueError: rows of another width than the network's input.
        """
        from rltrain.algo.kernels import feed_forward_kernel

        rows = x.flatten(1).numpy()
        if rows.shape[1] != self.n_inputs:
            raise ValueError(f"expected {self.n_inputs} inputs, got {rows.shape[1]}.")
        return torch.from_numpy(
            feed_forward_kernel.output(rows, self.weights(), self.shapes, self.cut)
        )

    def weights(self) -> np.ndarray:
        """One array, W_1, b_1, W_2, …; a copy unless the layers' weights lie so in memory."""
        return flat_view(tensor for layer in self.layers for tensor in _weights(layer))


def _weights(layer: Layer) -> tuple[torch.Tensor, torch.Tensor]:
    assert layer.bias is not None
    return layer.weight, layer.bias


def flat_view(tensors: Iterable[torch.Tensor]) -> np.ndarray:
    """Tensors as one flat array; a copy unless they follow each other in memory."""
    weights = list(tensors)
    n, first = sum(tensor.numel() for tensor in weights), weights[0].detach()
    end = first.data_ptr()
    for tensor in weights:
        if tensor.data_ptr() != end:
            return torch.cat([tensor.detach().flatten() for tensor in weights]).numpy()
        end += tensor.numel() * tensor.element_size()
    return first.as_strided((n,), (1,)).numpy()
