"""The input of agents: observation or image, previous action, agent id."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.normalization import RunningNorm
from rltrain.types import EnvSpec


# twin: kernels/acting.py, kernels/recurrent/team_step.py
class ActionAndAgent(nn.Module):
    """Appends ``[previous action one-hot ; agent id one-hot]``, each if set; no parameters."""

    numbers: Tensor  # [A], those of the actions
    agent_rows: Tensor  # [N, N]

    def __init__(self, *, spec: EnvSpec, last_action: bool, agent_id: bool) -> None:
        super().__init__()
        self.last_action = last_action
        self.agent_id = agent_id and spec.n_agents > 1  # a single agent needs no id
        self.dim = last_action * spec.n_actions + self.agent_id * spec.n_agents
        self.register_buffer("numbers", torch.arange(spec.n_actions), persistent=False)
        self.register_buffer("agent_rows", torch.eye(spec.n_agents), persistent=False)

    def forward(self, x: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """[X, N, F] to [X, N, F + dim].

        Args:
            x: observations or features.
            last_action: [X, N], -1 = none yet.
            agent: [X, N], None for 0 … N-1.
        """
        parts = [x]
        if self.last_action:
            parts.append((last_action[..., None] == self.numbers).float())
        if self.agent_id:
            ids = self.agent_rows if agent is None else F.embedding(agent, self.agent_rows)
            parts.append(ids.expand(*last_action.shape, -1))
        return torch.cat(parts, -1) if len(parts) > 1 else x


# twin: kernels/layers/stack.py, kernels/acting.py, kernels/recurrent/team_step.py
class AgentInput(nn.Module):
    """Joins ``[obs · obs_scale ; previous action one-hot ; agent id one-hot]``; no parameters.
    With ``normalize_obs`` observations are normalized instead of scaled.
    """

    def __init__(
        self, *, spec: EnvSpec, last_action: bool, agent_id: bool, normalize_obs: bool = False
    ) -> None:
        super().__init__()
        self.norm = RunningNorm(spec=spec) if normalize_obs else None
        self.scale = None if normalize_obs else spec.obs_scale  # None: normalized instead
        self.rest = ActionAndAgent(spec=spec, last_action=last_action, agent_id=agent_id)
        self.last_action = last_action
        self.dim = math.prod(spec.obs_shape) * spec.frame_stack + self.rest.dim

    @property
    def bare(self) -> bool:
        """Whether observations pass as they are."""
        return self.scale == 1 and self.rest.dim == 0

    def forward(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """obs [X, N, *O], last_action [X, N] and agent [X, N] (None for 0 … N-1) to [X, N, dim]."""
        x = obs.flatten(2)
        if self.norm is not None:
            x = self.norm(x)
        elif self.scale is not None and self.scale != 1:
            x = x * self.scale
        joined: Tensor = self.rest(x, last_action, agent)
        return joined


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
