"""Mixers without parameters: independent learners, and VDN's sum."""

from __future__ import annotations

from torch import Tensor

from rltrain.interfaces import Mixer
from rltrain.types import EnvSpec


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
class Independent(Mixer):
    """Every agent learns its own value (IQL; Tan 1993): M = N."""

    uses_greedy = False

    def __init__(self, *, spec: EnvSpec) -> None:
        super().__init__()
        self.n_streams = spec.n_agents

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N] to [T, B, N]."""
        return q


# twin: kernels/recurrent/team_step.py
class Sum(Mixer):
    """The team's value is the sum of its agents' values (VDN; Sunehag et al. 2018): M = 1.

    Raises:
        ValueError: more than one reward stream.
    """

    n_streams, uses_greedy = 1, False

    def __init__(self, *, spec: EnvSpec) -> None:
        super().__init__()
        need_team_reward("Sum", spec)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N] to [T, B, 1]."""
        return q.sum(-1, keepdim=True)


def need_team_reward(name: str, spec: EnvSpec) -> None:
    """ValueError unless the environment returns one team reward."""
    if spec.n_rewards != 1:
        raise ValueError(
            f"{name} needs one team reward, but the environment returns {spec.n_rewards}, one per "
            "agent: set env.reward=sum, or algo=iql, which learns from each agent's own."
        )


def no_critic() -> None:
    """Return None: the algorithm consists of agents and a mixer."""
