"""How many gradient steps follow from what was collected."""

from __future__ import annotations

import math
from fractions import Fraction


class UpdateRatio:
    """Gradient steps for env steps and finished episodes; fractions of one carry over exactly.

    Args:
        per_env_step, per_episode: gradient steps; they add up.
    """

    def __init__(self, per_env_step: Fraction, per_episode: Fraction) -> None:
        self.per_env_step, self.per_episode = per_env_step, per_episode
        self.unit = math.lcm(per_env_step.denominator, per_episode.denominator)
        self._each = int(per_env_step * self.unit), int(per_episode * self.unit)
        self.owed = 0  # less than a gradient step, in parts of 1 / unit

    def due(self, env_steps: int, episodes: int) -> int:
        """Whole gradient steps that are due after this many more env steps and episodes."""
        for_env_step, for_episode = self._each
        owed = self.owed + for_env_step * env_steps + for_episode * episodes
        steps, self.owed = divmod(owed, self.unit)
        return steps
