"""``FeedForward``: agents without memory; ``mlp_agents``: those of linear layers alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rltrain.algo.network.agent_input import ActionAndAgent, AgentInput, PictureInput
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.network.head import Head, initialize_orthogonally, perceptron, values
from rltrain.algo.network.packing import zero_outside
from rltrain.algo.normalization import RunningNorm
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.interfaces import Agents
from rltrain.types import Batch, EnvSpec, Output


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


# twin: kernels/layers/stack.py
class FeedForward(Agents):
    """Agents without memory: input, ``torso`` to features, ``head`` to values.

    ``rest`` joins the previous action and agent id to the features of images.

    Without gradients, values ``q`` of an implicit distribution use separate quantile levels, so
    that an action is not chosen with the levels that evaluate it.

    A window's last step, which only a bootstrap reads, and steps from ``mask_end`` on are evaluated
    without gradients; unneeded steps are not evaluated.
    """

    hidden_dim = 0

    def __init__(
        self,
        *,
        embed: AgentInput | PictureInput,
        torso: nn.Module,
        head: Head,
        distribution: Distribution,
        rest: ActionAndAgent | None = None,
    ) -> None:
        super().__init__()
        self.input, self.torso, self.rest, self.head = embed, torso, rest, head
        self.distribution = distribution

    @property
    def obs_norm(self) -> RunningNorm | None:
        """The running observation statistics, if it normalizes."""
        return self.input.norm

    @property
    def draws_noise(self) -> bool:
        """Whether values of the same observation vary in training mode."""
        return self.head.noisy or self.distribution.implicit

    @property
    def uses_last_action(self) -> bool:
        """Whether the previous action is an input."""
        return self.input.last_action or (self.rest is not None and self.rest.last_action)

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of the steps from ``start`` to ``stop``, independently."""
        n_steps, n_windows, n_agents = batch.last_action.shape
        stop = n_steps if stop is None else stop
        obs = zero_outside(batch.obs, batch.real)
        learning = torch.is_grad_enabled()
        learned = n_steps - 1 if batch.mask_end is None else batch.mask_end
        parts = ((0, learned), (learned, n_steps)) if learning else ((0, n_steps),)
        outputs = []
        uses = ("online",) if learning else ("target", "acting")
        for number, (first, end) in enumerate(parts):
            first, end = max(start, first), min(stop, end)
            if first >= end:
                continue
            agent = batch.agent
            if agent is not None:
                agent = agent.expand(end - first, n_windows, n_agents).flatten(0, 1)
            rows = obs[first:end].flatten(0, 1), batch.last_action[first:end].flatten(0, 1)
            with torch.set_grad_enabled(learning and number == 0):
                outputs.append(self._evaluate(*rows, agent, uses))
        shape = (stop - start, n_windows, n_agents)
        full = (start, n_steps - stop)
        q, dist, tau = (_placed(x, shape, full) for x in zip(*outputs, strict=True))
        assert q is not None
        return Output(q, q.new_empty(n_steps, n_windows, n_agents, 0), dist, tau)

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, 0] to (q [E, N, A], hidden)."""
        q, _, _ = self._evaluate(obs, last_action, None, ("acting",))
        return q.view(*last_action.shape, -1), hidden

    def _evaluate(
        self, obs: Tensor, last_action: Tensor, agent: Tensor | None, uses: Sequence[str]
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """[X, N, …] to means [X·N, A], outputs [X·N, A, K] and levels [X·N, K]; see ``values``."""
        features = self.torso(self.input(obs, last_action, agent))
        if self.rest is not None:
            features = self.rest(features, last_action, agent)
        return values(self.head, self.distribution, features.flatten(0, -2), uses)


# twin: kernels/layers/stack.py
def _placed(
    parts: tuple[Tensor | None, ...], shape: tuple[int, ...], around: tuple[int, int]
) -> Tensor | None:
    """Concatenate parts to [T+1, B, N, …], with zeros for the steps around them."""
    if parts[0] is None:
        return None
    whole = [p for p in parts if p is not None]
    x = whole[0] if len(whole) == 1 else torch.cat(whole)
    x = x.view(*shape, *x.shape[1:])
    if not any(around):
        return x
    before, after = (x.new_zeros(n, *x.shape[1:]) for n in around)
    return torch.cat([before, x, after])
