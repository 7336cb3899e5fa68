"""Initial weights."""

from __future__ import annotations

from torch import nn


def initialize_orthogonally(torso: nn.Module, head: nn.Module, gain: float) -> None:
    """Orthogonal weights and zero biases of all linear layers, ``gain`` of those of ``head`` (Saxe
    et al. 2014).
    """
    for part, factor in ((torso, 1.0), (head, gain)):
        for layer in part.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, factor)
                nn.init.zeros_(layer.bias)
