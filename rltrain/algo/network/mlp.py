"""``mlp_agents``: feed-forward agents with shared parameters."""

from __future__ import annotations

from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.head import Head, initialize_orthogonally, perceptron
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.types import EnvSpec


def mlp_agents(
    *,
    spec: EnvSpec,
    distribution: Distribution,
    hidden_sizes: list[Count],
    head_sizes: list[Count],
    dueling: Flag,
    noisy_sigma: Positive | None,
    layer_norm: Flag,
    last_action: Flag,
    agent_id: Flag,
    normalize_obs: Flag = False,
    orthogonal: Positive | None = None,
) -> FeedForward:
    """Linear and ReLU layers of ``hidden_sizes``, then a head with layers of ``head_sizes``.

    ``noisy_sigma`` makes the head's layers noisy; ``layer_norm`` normalizes every hidden layer,
    ``normalize_obs`` the observations; ``orthogonal`` is the gain of the head's orthogonal
    initialization, with gain 1 for the layers before it.
    """
    embed = AgentInput(
        spec=spec, last_action=last_action, agent_id=agent_id, normalize_obs=normalize_obs
    )
    sizes = [embed.dim, *hidden_sizes]
    head = Head(
        n_in=sizes[-1],
        n_actions=spec.n_actions,
        distribution=distribution,
        hidden_sizes=head_sizes,
        dueling=dueling,
        sigma=noisy_sigma,
        layer_norm=layer_norm,
    )
    torso = perceptron(sizes, None, layer_norm)
    if orthogonal is not None:
        initialize_orthogonally(torso, head, orthogonal)
    return FeedForward(embed=embed, torso=torso, head=head, distribution=distribution)
