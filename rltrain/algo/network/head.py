"""Heads: features to the outputs of every action, plain, dueling or noisy, for any distribution;
and their initialization.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.network.distribution import Distribution


# twin: kernels/layers/stack.py
class NoisyLinear(nn.Module):
    """Linear layer with learned, factorized Gaussian noise on its weights (Fortunato et al. 2018,
    section 3, equations 10 and 11), sampled in every call in training mode and absent in evaluation
    mode.
    """

    def __init__(self, n_in: int, n_out: int, sigma: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_in)
        self.n_in, self.n_out = n_in, n_out
        self.weight = nn.Parameter(torch.empty(n_out, n_in).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_out).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((n_out, n_in), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((n_out,), sigma * bound))

    def forward(self, x: Tensor) -> Tensor:
        """[..., n_in] to [..., n_out]."""
        if not self.training:
            return F.linear(x, self.weight, self.bias)
        noise_in, noise_out = (
            _signed_root(torch.randn(n, device=x.device)) for n in (self.n_in, self.n_out)
        )
        # W x + (sigma * outer(f, g)) x, without the outer product
        noisy = F.linear(x * noise_in, self.weight_sigma) * noise_out
        return F.linear(x, self.weight, self.bias) + noisy + self.bias_sigma * noise_out


# twin: kernels/layers/stack.py
def _signed_root(x: Tensor) -> Tensor:
    return x.sign() * x.abs().sqrt()


def perceptron(
    sizes: Sequence[int], sigma: float | None, layer_norm: bool, n_out: int | None = None
) -> nn.Sequential:
    """Linear (noisy with ``sigma``), optional LayerNorm and ReLU for each pair of ``sizes``; then a
    linear layer of ``n_out`` outputs, if any.
    """
    linear = nn.Linear if sigma is None else partial(NoisyLinear, sigma=sigma)
    layers: list[nn.Module] = []
    for n_in, width in pairwise(sizes):
        layers.append(linear(n_in, width))
        if layer_norm:
            layers.append(nn.LayerNorm(width))
        layers.append(nn.ReLU())
    if n_out is not None:
        layers.append(linear(sizes[-1], n_out))
    return nn.Sequential(*layers)


def linear_layers(n_in: int, width: int, n_out: int, n_layers: int) -> nn.Module:
    """``n_layers`` linear layers with ReLU between them."""
    layers = perceptron([n_in, *[width] * (n_layers - 1)], None, False, n_out)
    return layers if n_layers > 1 else layers[0]


# twin: kernels/layers/stack.py
class Head(nn.Module):
    """Features [X, F] to the outputs of every action [X, A, K].

    With ``dueling``, each output is V + A - mean(A) (Wang et al. 2016, equation 9). For an implicit
    distribution, features are multiplied by an embedding of the levels.
    """

    steps: Tensor  # [cosines]

    def __init__(
        self,
        *,
        n_in: int,
        n_actions: int,
        distribution: Distribution,
        hidden_sizes: Sequence[int] = (),
        dueling: bool = False,
        sigma: float | None = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.n_actions, self.n_outputs = n_actions, distribution.n_outputs
        stream = partial(perceptron, [n_in, *hidden_sizes], sigma, layer_norm)
        self.advantage = stream(n_actions * self.n_outputs)
        self.value = stream(self.n_outputs) if dueling else None
        self.embed = None
        self.noisy = sigma is not None
        if distribution.implicit:
            cosines = distribution.cosines
            self.embed = nn.Sequential(nn.Linear(cosines, n_in), nn.ReLU())
            self.register_buffer("steps", math.pi * torch.arange(cosines), persistent=False)

    def forward(self, features: Tensor, tau: Tensor | None = None) -> Tensor:
        """[X, F], and levels [X, K] for an implicit distribution, to [X, A, K]."""
        if self.embed is not None:
            assert tau is not None
            levels = self.embed(torch.cos(tau.unsqueeze(-1) * self.steps))  # [X, K, F]
            out = self._streams(features.unsqueeze(1) * levels)  # [X, K, A, 1]
            return out.squeeze(-1).transpose(1, 2)
        return self._streams(features)

    def _streams(self, x: Tensor) -> Tensor:
        out = self.advantage(x).unflatten(-1, (self.n_actions, self.n_outputs))
        if self.value is not None:
            out = out - out.mean(-2, keepdim=True) + self.value(x).unsqueeze(-2)
        return out


# twin: kernels/layers/stack.py
def values(
    head: Head, distribution: Distribution, features: Tensor, uses: Sequence[str]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Features [X, F] to means [X, A]; for a distribution also its outputs [X, A, K], and for an
    implicit one their sampled quantile levels [X, K].

    Args:
        uses: purposes for which levels are sampled (online, target, acting): outputs are those of
            the first, means those of the last.
    """
    if not distribution.implicit:
        dist = head(features)
        return distribution.mean(dist), None if distribution.scalar else dist, None
    assert distribution.levels is not None
    counts = [distribution.levels[use] for use in uses]
    drawn = [draw_levels(head, features.shape[0], n, features.device) for n in counts]
    parts = head(features, torch.cat(drawn, -1)).split(counts, -1)  # [X, A, K] each
    return distribution.mean(parts[-1]), parts[0], drawn[0]


def draw_levels(head: Head, n_rows: int, n_levels: int, device: torch.device) -> Tensor:
    """Levels [n_rows, K]; midpoints in evaluation mode, so that tests draw no random numbers."""
    if head.training:
        return torch.rand(n_rows, n_levels, device=device)
    return ((torch.arange(n_levels, device=device) + 0.5) / n_levels).expand(n_rows, -1)


def initialize_orthogonally(torso: nn.Module, head: nn.Module, gain: float) -> None:
    """Orthogonal weights and zero biases for all linear layers, with ``gain`` for ``head`` (Saxe et
    al. 2014).
    """
    for part, factor in ((torso, 1.0), (head, gain)):
        for layer in part.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, factor)
                nn.init.zeros_(layer.bias)
