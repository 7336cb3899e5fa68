"""Options of the environments of Gymnasium and PettingZoo; ``conf/env`` says what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rltrain.common.number_types import Count, Flag, Positive

Channels = Literal["auto", "first", "last"]
"""The axis of images with their channels; auto: as their sizes suggest."""
Reward = Literal["sum", "mean", "individual"]
TimeLimit = Literal["bootstrap", "terminal"]
Names = str | list[str]
"""How the names of a team's agents begin, or the list of them."""


@dataclass(frozen=True, kw_only=True)
class TeamOptions:
    """Options of a team's environments.

    Attributes:
        time_limit: whether targets bootstrap at a time limit.
        max_episode_steps: time steps after which an episode is truncated; None: its own limit.
        frame_stack: observations that the network sees together.
        reward: of a team.
        channels: the axis of images with their channels.
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
        reward_clip: rewards of a single agent are clipped to ± this in training; None = not at all.
        factored: every component of MultiDiscrete actions is an agent of its own.
        compiled: environments of ``classic_control`` are stepped in machine code.
    """

    reward_clip: Positive | None = None
    factored: Flag = False
    compiled: Flag = True


USUAL = EnvOptions()
