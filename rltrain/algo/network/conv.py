"""``conv_agents``: agents with convolutions, for images; convolutional layers."""

from __future__ import annotations

from torch import Tensor, nn

from rltrain.algo.network.agent_input import ActionAndAgent, PictureInput
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.head import Head
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.types import EnvSpec


def conv_agents(
    *,
    spec: EnvSpec,
    distribution: Distribution,
    filters: list[list[Count]],
    hidden_sizes: list[Count],
    dueling: Flag,
    noisy_sigma: Positive | None,
    layer_norm: Flag,
    last_action: Flag,
    agent_id: Flag,
) -> FeedForward:
    """Convolutions of [channels, kernel, stride] each, then a head with layers of ``hidden_sizes``
    (Mnih et al. 2015, Methods); previous action and agent id join the last convolution's output.
    """
    embed = PictureInput(spec=spec)
    channels, height, width = spec.obs_shape
    shape = (channels * spec.frame_stack, height, width)
    torso = Convolutions(in_shape=shape, filters=filters, norm=layer_norm)
    rest = ActionAndAgent(spec=spec, last_action=last_action, agent_id=agent_id)
    head = Head(
        n_in=torso.n_features + rest.dim,
        n_actions=spec.n_actions,
        distribution=distribution,
        hidden_sizes=hidden_sizes,
        dueling=dueling,
        sigma=noisy_sigma,
        layer_norm=layer_norm,
    )
    return FeedForward(embed=embed, torso=torso, rest=rest, head=head, distribution=distribution)


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
