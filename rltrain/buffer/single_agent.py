"""Windows of single agents, cut out of windows of their team."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rltrain.types import Batch


def one_agent(batch: Batch, agent: Tensor) -> Batch:
    """The same windows with only agent [B] of each team in it: N = 1."""

    def chosen(x: Tensor) -> Tensor:
        index = agent.view(1, -1, 1, *[1] * (x.dim() - 3)).expand(len(x), -1, 1, *x.shape[3:])
        return x.gather(2, index)

    n_agents = batch.action.shape[2]
    own_reward = batch.reward.shape[2] == n_agents and n_agents > 1
    hidden = batch.hidden
    if hidden is not None:
        hidden = chosen(hidden.unsqueeze(0)).squeeze(0)
    return replace(
        batch,
        obs=chosen(batch.obs),
        avail_actions=chosen(batch.avail_actions),
        last_action=chosen(batch.last_action),
        action=chosen(batch.action),
        reward=chosen(batch.reward) if own_reward else batch.reward,
        hidden=hidden,
        agent=agent.unsqueeze(1),
    )
