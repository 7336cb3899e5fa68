"""``conv_agents``: agents with convolutions, for images."""

from __future__ import annotations

from rltrain.algo.network.agent_input import ActionAndAgent
from rltrain.algo.network.convolutions import Convolutions, PictureInput
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
