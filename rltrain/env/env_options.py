"""Options of Gymnasium and PettingZoo environments, documented in ``conf/env``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rltrain.common.number_types import Count, Flag, Positive

Channels = Literal["auto", "first", "last"]
"""Channel axis of images; auto: inferred from their sizes."""
Reward = Literal["sum", "mean", "individual"]
TimeLimit = Literal["bootstrap", "terminal"]
Names = str | list[str]
"""Prefix of the names of a team's agents, or a list of names."""


@dataclass(frozen=True, kw_only=True)
class TeamOptions:
    """Options of team environments.

    Attributes:
        time_limit: whether targets bootstrap at a time limit.
        max_episode_steps: time steps after which an episode is truncated; None: its own limit.
        frame_stack: observations stacked for the network.
        reward: reward of a team.
        channels: channel axis of images.
    """

    time_limit: TimeLimit = "bootstrap"
    max_episode_steps: Count | None = None
    frame_stack: Count = 1
    reward: Reward = "sum"
    channels: Channels = "auto"


@dataclass(frozen=True, kw_only=True)
class EnvOptions(TeamOptions):
    """Options of environments of one agent or a team.

    Attributes:
        reward_clip: a single agent's rewards are clipped to ± this in training; None = no clipping.
        factored: every component of MultiDiscrete actions is an agent.
        compiled: ``classic_control`` environments are stepped in machine code.
    """

    reward_clip: Positive | None = None
    factored: Flag = False
    compiled: Flag = True


USUAL = EnvOptions()
