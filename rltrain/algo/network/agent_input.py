"""What a network of agents gets: observation, previous action, agent id."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.network.normalization import RunningNorm
from rltrain.types import (
    EnvSpec,
)


class AgentInput(nn.Module):
    """Joins ``[obs · obs_scale ; previous action one-hot ; agent id one-hot]``; no parameters.
    With ``normalize_obs`` observations are normalised instead of scaled.
    """

    action_rows: Tensor  # [1+A, A], row 0 stands for no action yet
    agent_rows: Tensor  # [N, N]

    def __init__(
        self, *, spec: EnvSpec, last_action: bool, agent_id: bool, normalize_obs: bool = False
    ) -> None:
        super().__init__()
        self.norm = RunningNorm(spec=spec) if normalize_obs else None
        self.scale = None if normalize_obs else spec.obs_scale  # None: normalised instead
        self.last_action = last_action
        agent_id = self.agent_id = agent_id and spec.n_agents > 1  # one alone needs no number
        obs_dim = math.prod(spec.obs_shape) * spec.frame_stack
        self.bare = self.scale == 1 and not (last_action or agent_id)  # observations as they are
        self.dim = obs_dim + last_action * spec.n_actions + agent_id * spec.n_agents
        actions = torch.eye(spec.n_actions)
        action_rows = torch.cat([torch.zeros(1, spec.n_actions), actions])
        self.register_buffer("action_rows", action_rows, persistent=False)
        self.register_buffer("agent_rows", torch.eye(spec.n_agents), persistent=False)

    def forward(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """To [X, N, dim].

        Args:
            obs: [X, N, *O].
            last_action: [X, N], -1 = none yet.
            agent: [X, N], None for 0 … N-1.
        """
        x = obs.flatten(2)
        if self.norm is not None:
            x = self.norm(x)
        elif self.scale is not None and self.scale != 1:
            x = x * self.scale
        parts = [x]
        if self.last_action:
            parts.append(F.embedding(last_action + 1, self.action_rows))
        if self.agent_id:
            ids = self.agent_rows if agent is None else F.embedding(agent, self.agent_rows)
            parts.append(ids.expand(*last_action.shape, -1))
        return torch.cat(parts, -1) if len(parts) > 1 else x
