"""Networks that are nothing but layers with ReLU between them, as compiled code takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.kernels.replace import replace_method
from rltrain.algo.network.convolutions import Convolutions
from rltrain.algo.network.distribution import Scalar
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.layers import Layers

Layer = nn.Linear | nn.Conv2d


def compile_feed_forward(agents: FeedForward) -> None:
    """Let agents act in compiled code, if they are nothing but layers."""
    stack = Stack.of(agents)
    if stack is not None:
        replace_method(agents, "step", partial(_step, stack))


def _step(
    stack: Stack, agents: FeedForward, obs: Tensor, last_action: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    if not stack.compiles or torch.is_grad_enabled():
        return FeedForward.step(agents, obs, last_action, hidden)
    return stack.output(obs.flatten(0, 1)).view(*last_action.shape, -1), hidden


class Stack:
    """Layers of the trunk, which ends in a ReLU, and of the head's one or two streams.

    ``shapes`` and ``cut`` describe them for ``feed_forward_kernel``. ``sides`` [height, width] are
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

    @classmethod
    def of(cls, agents: nn.Module) -> Stack | None:
        """The layers of feed-forward agents; None if they are more than layers."""
        if type(agents) is not FeedForward:
            return None
        head, rest = agents.head, agents.rest
        streams = [head.advantage] if head.value is None else [head.advantage, head.value]
        bare = agents.input.bare and (rest is None or rest.dim == 0)
        plain = bare and type(agents.distribution) is Scalar
        if not plain or not all(stream.plain for stream in streams):
            return None
        advantage = head.advantage.linear
        value = [] if head.value is None else head.value.linear
        torso = agents.torso
        if type(torso) is Layers and torso.ends_in_relu:
            return cls(torso.linear, advantage, value)
        if type(torso) is Convolutions and torso.plain:
            return cls(torso.convolutions, advantage, value, torso.sides)
        return None

    @property
    def compiles(self) -> bool:
        """Whether the weights lie where compiled code can take them."""
        weight = self.layers[0].weight
        return weight.is_cpu and weight.dtype == torch.float32

    def output(self, x: Tensor) -> Tensor:
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


def _weights(layer: Layer) -> tuple[Tensor, Tensor]:
    assert layer.bias is not None
    return layer.weight, layer.bias


def flat_view(tensors: Iterable[Tensor]) -> np.ndarray:
    """Tensors as one flat array; a copy unless they follow each other in memory."""
    weights = list(tensors)
    n, first = sum(tensor.numel() for tensor in weights), weights[0].detach()
    end = first.data_ptr()
    for tensor in weights:
        if tensor.data_ptr() != end:
            return torch.cat([tensor.detach().flatten() for tensor in weights]).numpy()
        end += tensor.numel() * tensor.element_size()
    return first.as_strided((n,), (1,)).numpy()
