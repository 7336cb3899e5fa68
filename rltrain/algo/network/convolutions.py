"""Convolutional layers and their input."""

from __future__ import annotations

from torch import Tensor, nn

from rltrain.types import EnvSpec


# twin: kernels/layers/stack.py
class PictureInput(nn.Module):
    """Images [X, N, C, H, W] scaled by ``obs_scale``."""

    norm, last_action = None, False

    def __init__(self, *, spec: EnvSpec) -> None:
        super().__init__()
        if len(spec.obs_shape) != 3:
            raise ValueError(
                f"a convolutional network needs images [channels, height, width], got observations "
                f"of shape {list(spec.obs_shape)}: set algo/network=mlp."
            )
        self.scale = spec.obs_scale

    @property
    def bare(self) -> bool:
        """Whether observations pass as they are."""
        return self.scale == 1

    def forward(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """[X, N, C, H, W], scaled; previous action and agent id join the features later."""
        return obs * self.scale if self.scale != 1 else obs


# twin: kernels/layers/stack.py
class Convolutions(nn.Module):
    """Layers of [channels, kernel, stride] with ReLU, flattened: [X, N, C, H, W] to [X, N, F].

    Raises:
        ValueError: a filter is not a triple, or a kernel is larger than what is left of the image.
    """

    def __init__(self, *, in_shape: tuple[int, ...], filters: list[list[int]], norm: bool) -> None:
        super().__init__()
        channels, height, width = in_shape
        if any(len(layer) != 3 for layer in filters):
            raise ValueError(
                f"algo.network.filters: expected [channels, kernel, stride] for each layer, got "
                f"{filters}. Type for example algo.network.filters='[[32,8,4],[64,4,2]]'."
            )
        layers: list[nn.Module] = []
        for n_out, kernel, stride in filters:
            layers.append(nn.Conv2d(channels, n_out, kernel, stride))
            height, width = ((side - kernel) // stride + 1 for side in (height, width))
            if height < 1 or width < 1:
                raise ValueError(
                    f"algo.network.filters={filters} leave nothing of a {in_shape[1]} x "
                    f"{in_shape[2]} image: use smaller kernels or strides. Type for example "
                    f"algo.network.filters='{self.fitting(min(in_shape[1:]))}'."
                )
            if norm:
                layers.append(nn.LayerNorm([n_out, height, width]))
            layers.append(nn.ReLU())
            channels = n_out
        self.layers = nn.Sequential(*layers)
        self.sides = in_shape[1], in_shape[2]
        self.n_features = channels * height * width

    @staticmethod
    def fitting(side: int) -> str:
        """Small filters for an image whose shorter side has this many pixels."""
        if side >= 16:
            return "[[32,4,2],[64,3,1]]"
        return "[[16,3,1],[32,3,1]]" if side >= 5 else f"[[16,{min(side, 2)},1]]"

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.flatten(0, 1)).flatten(1).view(*x.shape[:2], -1)
