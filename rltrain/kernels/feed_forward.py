"""Networks that are nothing but layers, normalized or not, with ReLU between them, as compiled code
takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.network.convolutions import Convolutions
from rltrain.algo.network.distribution import Categorical, ImplicitQuantile, Quantile, Scalar
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.head import Head, NoisyLinear, draw_levels
from rltrain.algo.network.layers import Layers
from rltrain.kernels.replace import replace_method
from rltrain.kernels.twins.watch import Watch

Layer = nn.Linear | nn.Conv2d | NoisyLinear
EPS = 1e-5  # of layer normalization, as ``linear_kernel`` has it
NO_POINTS = np.zeros(0, np.float32)


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
    rows = network_input(agents, obs, last_action).flatten(0, 1)
    return stack.output(rows, *outputs_of(agents.distribution)).view(*last_action.shape, -1), hidden


def network_input(agents: FeedForward, obs: Tensor, last_action: Tensor) -> Tensor:
    """What the first layer gets, [X, N, …]."""
    return obs if agents.input.bare else agents.input(obs, last_action, None)


def outputs_of(distribution: nn.Module) -> tuple[int, np.ndarray]:
    """What an action's outputs are, as ``distribution_kernel`` takes it: kind and points [K]."""
    if isinstance(distribution, Categorical):
        return 1, distribution.support.numpy()
    if isinstance(distribution, Quantile):
        return 2, distribution.tau.numpy()
    return (2 if isinstance(distribution, ImplicitQuantile) else 0), NO_POINTS


class Block(NamedTuple):
    """A layer, and how its output is normalized."""

    layer: Layer
    norm: nn.LayerNorm | None = None


class Stack:
    """Layers of the trunk, which ends in a ReLU, of the head's one or two streams, and of the
    embedding of quantile levels.

    ``shapes`` and ``cut`` describe them for ``feed_forward_kernel`` or ``implicit_kernel``.
    ``sides`` [height, width] are those of the images that come in; convolutions come first, with
    square kernels.
    """

    head: Head | None = None  # of an implicit distribution
    levels: Mapping[str, int] | None = None  # its numbers of quantile levels, by use

    def __init__(
        self,
        trunk: Sequence[Block],
        advantage: Sequence[Block],
        value: Sequence[Block],
        sides: tuple[int, int] = (0, 0),
        embedding: Sequence[Block] = (),
    ) -> None:
        blocks = [*trunk, *advantage, *value, *embedding]
        self.layers = [block.layer for block in blocks]
        apart = value or embedding
        self.cut = (len(trunk), len(advantage)) if apart else (len(trunk) + len(advantage), 0)
        rows = []
        self.n_products = 0  # multiplications for one row
        height, width = sides
        for layer, norm in blocks:
            n_out, fan_in = len(layer.weight), layer.weight[0].numel()
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
        self.noisy = np.array([isinstance(layer, NoisyLinear) for layer in self.layers])
        self.n_weights = sum((n_in + 1 + 2 * norm) * n_out for n_in, n_out, *_, norm in rows)
        self.draws_noise = bool(self.noisy.any())
        self._noise = torch.zeros(sum(sum(row[:2]) for row in self.shapes[self.noisy].tolist()))
        parts = [part for block in blocks for part in block if part is not None]
        self._tables: list[dict[str, Any]] = [part._parameters for part in parts]
        self._found: tuple[list[int], np.ndarray] = [], NO_POINTS
        self.watch = Watch()

    @classmethod
    def of(cls, agents: nn.Module) -> Stack | None:
        """The layers of feed-forward agents; None if they are more than layers."""
        if type(agents) is not FeedForward:
            return None
        head, rest = agents.head, agents.rest
        distribution: nn.Module = agents.distribution
        known = type(distribution) in (Scalar, Categorical, Quantile, ImplicitQuantile)
        if not known or (rest is not None and rest.dim > 0):
            return None
        torso, sides = agents.torso, (0, 0)
        trunk = plain_layers(torso, ends_in_relu=True)
        if type(torso) is Convolutions and torso.plain:
            trunk, sides = [Block(layer) for layer in torso.convolutions], torso.sides
        advantage = plain_layers(head.advantage, ends_in_relu=False)
        value = [] if head.value is None else plain_layers(head.value, ends_in_relu=False)
        if not trunk or not advantage or value is None:
            return None
        embedding = [] if head.embed is None else [Block(cast(nn.Linear, head.embed[0]))]
        stack = cls(trunk, advantage, value, sides, embedding)
        stack.watch = Watch(agents)
        if head.embed is not None:
            stack.head, stack.levels = head, cast(ImplicitQuantile, distribution).levels
        return stack

    def draw_levels(self, n_rows: int, use: str) -> np.ndarray:
        """Quantile levels [n_rows, K] as the network draws them."""
        assert self.head is not None
        assert self.levels is not None
        found: np.ndarray = draw_levels(
            self.head, n_rows, self.levels[use], torch.device("cpu")
        ).numpy()
        return found

    @property
    def compiles(self) -> bool:
        """Whether the weights lie where compiled code can take them, and are nothing but that."""
        weight = self._tables[0]["weight"]
        return bool(weight.is_cpu and weight.dtype == torch.float32) and self.watch.plain()

    def output(self, x: Tensor, kind: int, points: np.ndarray) -> Tensor:
        """[X, …] to expected returns [X, A], without a gradient; ``outputs_of`` a distribution.

        Raises:
            ValueError: rows of another width than the network's input.
        """
        return torch.from_numpy(self.expected(x.flatten(1).numpy(), kind, points))

    def expected(self, rows: np.ndarray, kind: int, points: np.ndarray) -> np.ndarray:
        """``output`` of arrays."""
        from rltrain.kernels import feed_forward_kernel

        if rows.shape[1] != self.n_inputs:
            raise ValueError(f"expected {self.n_inputs} inputs, got {rows.shape[1]}.")
        shapes, cut = self.shapes, self.cut
        q: np.ndarray
        if self.levels is not None:
            from rltrain.kernels import implicit_kernel

            tau = self.draw_levels(len(rows), "acting")
            q = implicit_kernel.output(rows, tau, self.drawn()[0], shapes, cut)
        else:
            weights, _ = self.drawn()
            q = feed_forward_kernel.output(rows, weights, shapes, cut, kind, points)
        return q

    def parameters(self) -> np.ndarray:
        """One array, W_1, b_1, W_2, …, the sigmas of a noisy layer behind its b, then factors and
        offsets of its normalization; a copy unless they lie so in memory.
        """
        tensors = [tensor for table in self._tables for tensor in table.values()]
        places = [tensor.data_ptr() for tensor in tensors]
        if places == self._found[0]:
            return self._found[1]
        flat = flat_view(tensors)
        if flat is None:
            return torch.cat([tensor.detach().flatten() for tensor in tensors]).numpy()
        self._found = places, flat
        return flat

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights [n_weights] with noise as a forward pass draws it, and the noise."""
        parameters = self.parameters()
        if not self.draws_noise:
            return parameters, NO_POINTS
        from rltrain.kernels import noise_kernel

        noise, start = self._noise.clone(), 0
        for layer in self.layers:
            if isinstance(layer, NoisyLinear):
                for n in (layer.n_in, layer.n_out):  # one by one: as the layer draws them
                    if layer.training:
                        noise[start : start + n].normal_()
                    start += n
        weights, drawn = np.empty(self.n_weights, np.float32), noise.numpy()
        noise_kernel.with_noise(parameters, self.shapes, self.noisy, drawn, weights)
        return weights, drawn

    def of_parameters(self, of_weights: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The gradient by ``parameters`` from that by the weights ``drawn``."""
        if not self.draws_noise:
            return of_weights
        from rltrain.kernels import noise_kernel

        gradient = np.empty_like(self.parameters())
        noise_kernel.of_parameters(of_weights, self.shapes, self.noisy, noise, gradient)
        return gradient


def plain_layers(layers: nn.Module, ends_in_relu: bool) -> list[Block] | None:
    """The linear or noisy layers of a sequence with ReLU between them, and at the end if asked for,
    normalized or not before it; None if it is anything else.
    """
    blocks: list[Block] = []
    relu = True  # before the next layer
    for part in layers if type(layers) is Layers else ():
        if type(part) in (nn.Linear, NoisyLinear) and relu:
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
    return whole and norm.eps == EPS and norm.bias is not None


def flat_view(tensors: Sequence[Tensor]) -> np.ndarray | None:
    """Tensors as one flat array, if they follow each other in memory."""
    n, first = sum(tensor.numel() for tensor in tensors), tensors[0].detach()
    end = first.data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != end:
            return None
        end += tensor.numel() * tensor.element_size()
    return first.as_strided((n,), (1,)).numpy()
