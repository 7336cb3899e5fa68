"""Networks that are nothing but layers, normalized or not, with ReLU between them, as compiled code
takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.network import head as heads
from rltrain.algo.network.conv import Convolutions
from rltrain.algo.network.distribution import (
    Categorical,
    Distribution,
    ImplicitQuantile,
    Quantile,
    Scalar,
)
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.head import NoisyLinear
from rltrain.kernels.module_watch import ModuleWatch

Layer = nn.Linear | nn.Conv2d | NoisyLinear
EPS = 1e-5  # of layer normalization, as ``linear_kernel`` has it
NO_POINTS = np.zeros(0, np.float32)
PARAMETERS = {
    nn.Linear: ["weight", "bias"],
    nn.Conv2d: ["weight", "bias"],
    nn.LayerNorm: ["weight", "bias"],
    NoisyLinear: ["weight", "bias", "weight_sigma", "bias_sigma"],
}
"""Parameters of the layers and norms that compiled code has, in order."""


def output_kind(distribution: Distribution) -> tuple[int, np.ndarray | None]:
    """Kind and points [K] of an action's outputs, as in ``td_step_kernel``."""
    if distribution.support is not None:
        return 1, distribution.support.numpy()
    if distribution.tau is not None:
        return 2, distribution.tau.numpy()
    return (2, NO_POINTS) if distribution.implicit else (0, None)


class Block(NamedTuple):
    """A layer, and how its output is normalized."""

    layer: Layer
    norm: nn.LayerNorm | None = None


class Stack:
    """Layers of the trunk, which ends in a ReLU, of the head's one or two streams, and of the
    embedding of quantile levels.

    ``shapes`` and ``cut`` describe them for ``stack_kernel``. Convolutions come first, with square
    kernels.
    """

    def __init__(
        self,
        agents: FeedForward,
        trunk: Sequence[Block],
        advantage: Sequence[Block],
        value: Sequence[Block],
        embedding: Sequence[Block],
    ) -> None:
        self.watch, self.distribution = ModuleWatch(agents), cast(Any, agents.distribution)
        self.head = agents.head if embedding else None  # of an implicit distribution
        blocks = [*trunk, *advantage, *value, *embedding]
        self.layers = [block.layer for block in blocks]
        self.cut = len(trunk), len(advantage)
        rows, sizes = [], []  # for stack_kernel, and for linear_kernel.with_noise
        self.n_products = 0  # multiplications for one row
        height, width = getattr(agents.torso, "sides", (0, 0))  # of the images that come in
        for layer, norm in blocks:
            n_out, fan_in = len(layer.weight), layer.weight[0].numel()
            noisy, n_norm = isinstance(layer, NoisyLinear), 0 if norm is None else 2 * n_out
            sizes.append((fan_in, n_out, int(noisy), n_norm))
            if isinstance(layer, nn.Conv2d):
                kernel, stride = layer.kernel_size[0], layer.stride[0]
                rows.append((fan_in, n_out, layer.in_channels, height, width, kernel, stride, 0))
                height, width = ((side - kernel) // stride + 1 for side in (height, width))
                self.n_products += fan_in * n_out * height * width
            else:
                self.n_products += fan_in * n_out
                rows.append((fan_in, n_out, 0, 0, 0, 0, 0, int(norm is not None)))
        self.shapes = np.array(rows)
        fan_in, _, channels, height, width, *_ = rows[0]
        self.n_inputs = channels * height * width if channels else fan_in
        self.draws_noise = any(isinstance(layer, NoisyLinear) for layer in self.layers)
        self._n_weights = sum((row[0] + 1 + 2 * row[7]) * row[1] for row in rows)
        self._sizes = np.array(sizes)
        parts = [part for block in blocks for part in block if part is not None]
        self._tables: list[dict[str, Any]] = [part._parameters for part in parts]
        self._norms = [block.norm for block in blocks if block.norm is not None]
        self._known: tuple[list[int], np.ndarray] = [], NO_POINTS

    @classmethod
    def of(cls, agents: nn.Module) -> Stack | None:
        """The layers of feed-forward agents; None if they are more than layers."""
        if type(agents) is not FeedForward:
            return None
        head, torso, rest = agents.head, agents.torso, agents.rest
        distribution: nn.Module = agents.distribution
        known = type(distribution) in (Scalar, Categorical, Quantile, ImplicitQuantile)
        if not known or (rest is not None and rest.dim > 0):
            return None
        trunk = plain_layers(torso, ends_in_relu=True)
        if type(torso) is Convolutions:
            trunk = plain_layers(torso.layers, True, (nn.Conv2d,))
        advantage = plain_layers(head.advantage, ends_in_relu=False)
        value = [] if head.value is None else plain_layers(head.value, ends_in_relu=False)
        embedding = [] if head.embed is None else plain_layers(head.embed, ends_in_relu=True)
        if not trunk or not advantage or value is None or embedding is None:
            return None
        return cls(agents, trunk, advantage, value, embedding)

    @cached_property
    def outputs(self) -> tuple[int, np.ndarray | None]:
        """``output_kind`` of the distribution; read where compiled code computes, on the CPU."""
        return output_kind(self.distribution)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors of ``parameters``."""
        return [tensor for table in self._tables for tensor in table.values()]

    def draw_levels(self, n_rows: int, use: str) -> np.ndarray | None:
        """Quantile levels [n_rows, K] as the network draws them; None if it has none."""
        if self.head is None:
            return None
        n_levels = self.distribution.levels[use]
        levels = heads.draw_levels(self.head, n_rows, n_levels, torch.device("cpu"))
        return levels.contiguous().numpy()

    @property
    def reachable(self) -> bool:
        """Whether the weights lie where compiled code can take them, and norms are as it has
        them.
        """
        weight = self._tables[0]["weight"]
        known = all(norm.eps == EPS for norm in self._norms)
        return bool(known and weight.is_cpu and weight.dtype == torch.float32)

    @property
    def compiles(self) -> bool:
        """Whether compiled code computes the same as the modules do now."""
        return self.watch.plain() and self.reachable

    def __call__(
        self, rows: np.ndarray, last_action: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs [E, N, n_inputs] to expected returns [E, N, A], as ``RecurrentStep``.

        Raises:
            ValueError: rows of a different width than the network's input.
        """
        from rltrain.kernels.layers import stack_kernel

        *shape, n_inputs = rows.shape
        if n_inputs != self.n_inputs:
            raise ValueError(f"expected {self.n_inputs} inputs, got {n_inputs}.")
        rows = np.ascontiguousarray(rows).reshape(-1, n_inputs)
        tau, (weights, _) = self.draw_levels(len(rows), "acting"), self.drawn()
        network = weights, self.shapes, self.cut, *self.outputs
        return stack_kernel.expected(rows, tau, *network).reshape(*shape, -1), hidden

    def parameters(self) -> np.ndarray:
        """One array, W_1, b_1, W_2, …, the sigmas of a noisy layer behind its b, then factors and
        offsets of its normalization; a copy unless they lie so in memory.
        """
        tensors = self.tensors
        places = [tensor.data_ptr() for tensor in tensors]
        if places == self._known[0]:
            return self._known[1]
        ends = [place + tensor.nbytes for place, tensor in zip(places, tensors, strict=True)]
        if places[1:] != ends[:-1]:  # they do not follow each other
            return torch.cat([tensor.detach().flatten() for tensor in tensors]).numpy()
        n = sum(tensor.numel() for tensor in tensors)
        self._known = places, tensors[0].detach().as_strided((n,), (1,)).numpy()
        return self._known[1]

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights with noise as a forward pass draws it, and the noise."""
        parameters = self.parameters()
        if not self.draws_noise:
            return parameters, NO_POINTS
        from rltrain.kernels.arithmetic import linear_kernel

        drawn = [
            torch.randn(n) if layer.training else torch.zeros(n)  # one by one: as the layer draws
            for layer in self.layers
            if isinstance(layer, NoisyLinear)
            for n in (layer.n_in, layer.n_out)
        ]
        normal = torch.cat(drawn).numpy()
        noise = np.copysign(np.sqrt(np.abs(normal)), normal)
        weights = np.empty(self._n_weights, np.float32)
        linear_kernel.with_noise(parameters, self._sizes, noise, weights)
        return weights, noise

    def parameter_gradient(self, of_weights: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The gradient by ``parameters`` from that by the weights ``drawn``."""
        if not self.draws_noise:
            return of_weights
        from rltrain.kernels.arithmetic import linear_kernel

        gradient = np.empty_like(self.parameters())
        linear_kernel.noise_gradient(of_weights, self._sizes, noise, gradient)
        return gradient


def readable(part: nn.Module) -> bool:
    """Whether a layer or norm has the parameters and settings that compiled code has, and no
    others.
    """
    names = [name for name, tensor in part._parameters.items() if tensor is not None]
    usual = True
    if type(part) is nn.Conv2d:
        square = all(len(set(sides)) == 1 for sides in (part.kernel_size, part.stride))
        usual = square and (part.padding, part.dilation, part.groups) == ((0, 0), (1, 1), 1)
    return usual and names == PARAMETERS.get(type(part))


def plain_layers(
    layers: nn.Module, ends_in_relu: bool, kinds: tuple[type, ...] = (nn.Linear, NoisyLinear)
) -> list[Block] | None:
    """The layers of some kinds of a sequence with ReLU between them, and at the end if asked for,
    normalized or not before it; None if it is anything else.
    """
    blocks: list[Block] = []
    relu = True  # before the next layer
    for part in layers if type(layers) is nn.Sequential else ():
        if type(part) in kinds and readable(part) and relu:
            blocks.append(Block(cast(Layer, part)))
            relu = False
        elif type(part) is nn.LayerNorm and not relu and known_norm(part, blocks[-1]):
            blocks[-1] = Block(blocks[-1].layer, part)
        elif type(part) is nn.ReLU and not relu:
            relu = True
        else:
            return None
    plain = relu is ends_in_relu and (relu or blocks[-1].norm is None)
    return blocks if blocks and plain else None


def known_norm(norm: nn.LayerNorm, block: Block) -> bool:
    """Whether compiled code has a normalization of all outputs of a layer."""
    whole = norm.normalized_shape == (len(block.layer.weight),) and block.norm is None
    return whole and norm.eps == EPS and readable(norm)
