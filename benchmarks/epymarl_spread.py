"""MPE spread as in EPyMARL's PettingZoo wrapper, which loses the last reward.

``rltrain env=pettingzoo env.id=benchmarks.epymarl_spread:make`` plays it, from the root of the
repository.
"""

from __future__ import annotations

from typing import Any

from mpe2 import simple_spread_v3
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper


class LastRewardLost(BaseParallelWrapper):
    """Rewards of 0 in an episode's last step."""

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        obs, rewards, *rest = super().step(actions)
        if not self.env.agents:
            rewards = dict.fromkeys(rewards, 0.0)
        return obs, rewards, *rest


def make() -> ParallelEnv:
    """Three agents, 25 steps."""
    return LastRewardLost(simple_spread_v3.parallel_env(max_cycles=25))
