"""``multi_input_agents``: one encoder per key of a Dict observation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rltrain.algo.network.agent_input import ActionAndAgent, AgentInput
from rltrain.algo.network.conv import Convolutions
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.head import Head, perceptron
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.common.spec_record import flat_size
from rltrain.types import EnvSpec


def multi_input_agents(
    *,
    spec: EnvSpec,
    distribution: Distribution,
    filters: list[list[Count]],
    vector_sizes: list[Count],
    hidden_sizes: list[Count],
    dueling: Flag,
    noisy_sigma: Positive | None,
    layer_norm: Flag,
    last_action: Flag,
    agent_id: Flag,
) -> FeedForward:
    """Convolutions of [channels, kernel, stride] for each image of a Dict observation, layers of
    ``vector_sizes`` for each other key, then a head with layers of ``hidden_sizes`` on all features
    (the combined extractor of Stable-Baselines3's MultiInputPolicy).

    Raises:
        ValueError: the observations are not a Dict.
    """
    parts = list(observation_parts(spec))
    torso = Encoders(
        parts=parts,
        n_frames=spec.frame_stack,
        filters=filters,
        vector_sizes=vector_sizes,
        layer_norm=layer_norm,
    )
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
    embed = AgentInput(spec=spec, last_action=False, agent_id=False)
    return FeedForward(embed=embed, torso=torso, rest=rest, head=head, distribution=distribution)


@dataclass(frozen=True)
class Part:
    """A key of a Dict observation: columns [start, stop) of the flattened observation."""

    start: int
    stop: int
    image: tuple[int, int, int] | None = None  # channels, height, width; None: a vector
    channels_last: bool = False


def observation_parts(spec: EnvSpec) -> Iterator[Part]:
    """The keys of a Dict observation, in the order of flattening.

    Raises:
        ValueError: the observations are not a Dict.
    """
    keys = (spec.obs_space or {}).get("dict")
    if keys is None:
        raise ValueError(
            "algo/network=multi_input has an encoder per key of Dict observations, got "
            f"observations of shape {list(spec.obs_shape)} without keys: set algo/network="
            f"{'conv' if len(spec.obs_shape) == 3 else 'mlp'}."
        )
    start = 0
    for _, space in keys:
        stop = start + flat_size(space)
        shape, channels = space.get("box", ()), space.get("channels")
        if channels == "last":
            yield Part(start, stop, (shape[2], *shape[:2]), channels_last=True)
        elif channels == "first":
            yield Part(start, stop, tuple(shape))
        elif channels == "one" and space["dtype"] == "uint8":
            yield Part(start, stop, (1, *shape))
        else:
            yield Part(start, stop)
        start = stop


class Encoders(nn.Module):
    """Concatenated features of every part: [X, N, n_frames * D] to [X, N, F]."""

    def __init__(
        self,
        *,
        parts: list[Part],
        n_frames: int,
        filters: list[list[int]],
        vector_sizes: list[int],
        layer_norm: bool,
    ) -> None:
        super().__init__()
        self.parts, self.n_frames = parts, n_frames
        self.encoders, self.n_features = nn.ModuleList(), 0
        for part in parts:
            if part.image is not None:
                channels, height, width = part.image
                in_shape = (channels * n_frames, height, width)
                encoder = Convolutions(in_shape=in_shape, filters=filters, norm=layer_norm)
                self.n_features += encoder.n_features
                self.encoders.append(encoder)
            else:
                sizes = [(part.stop - part.start) * n_frames, *vector_sizes]
                self.encoders.append(perceptron(sizes, None, layer_norm))
                self.n_features += sizes[-1]

    def forward(self, x: Tensor) -> Tensor:
        frames = x.unflatten(-1, (self.n_frames, -1))  # [X, N, n_frames, D]
        features = []
        for part, encoder in zip(self.parts, self.encoders, strict=True):
            seen = frames[..., part.start : part.stop]
            if part.image is not None:
                channels, height, width = part.image
                if part.channels_last:
                    seen = seen.unflatten(-1, (height, width, channels)).movedim(-1, -3)
                else:
                    seen = seen.unflatten(-1, part.image)
                seen = seen.flatten(2, 3)  # the channels of all frames, oldest first
            else:
                seen = seen.flatten(2)
            features.append(encoder(seen))
        return torch.cat(features, -1)
