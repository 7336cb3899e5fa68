"""Layers one after the other."""

from __future__ import annotations

from torch import nn


# twin: kernels/stack.py, kernels/fused_layers.py
class Layers(nn.Sequential):
    """A sequence of layers; ``plain`` if all of them are Linear, with ReLU between them."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        kinds = [type(layer) for layer in layers]
        self.linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        between = [nn.Linear, nn.ReLU] * len(self.linear)
        self.plain = bool(kinds) and kinds == between[: len(kinds)]
        self.ends_in_relu = self.plain and kinds[-1] is nn.ReLU


def initialize_orthogonally(torso: nn.Module, head: nn.Module, gain: float) -> None:
    """Orthogonal weights and zero biases of all linear layers, ``gain`` of those of ``head`` (Saxe
    et al. 2014).
    """
    for part, factor in ((torso, 1.0), (head, gain)):
        for layer in part.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, factor)
                nn.init.zeros_(layer.bias)
