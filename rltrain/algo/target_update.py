"""When the target network is updated, and how far."""

from __future__ import annotations

from operator import attrgetter

from rltrain.common.number_types import Count, Fraction
from rltrain.interfaces import TargetUpdates
from rltrain.types import Clock


class TargetUpdate(TargetUpdates):
    """When the target network is updated, in episodes, env_steps or updates, and how far.

    The period is counted from the last update, as in PyMARL, not at its multiples: a late update
    does not shorten the period after it. ``tau`` = 1 copies the weights; below 1, they are averaged
    (Polyak) with this factor. Exactly one period is set.

    Raises:
        ValueError: none or several periods are set.
    """

    def __init__(
        self,
        *,
        episodes: Count | None,
        env_steps: Count | None,
        updates: Count | None,
        tau: Fraction,
    ) -> None:
        periods = {"episodes": episodes, "env_steps": env_steps, "updates": updates}
        chosen = {unit: period for unit, period in periods.items() if period is not None}
        if len(chosen) != 1:
            empty = ", ".join(f"algo.target_update.{unit}=null" for unit in chosen)
            raise ValueError(
                "the target update needs exactly one period, "
                f"got {', '.join(f'{k}={v}' for k, v in chosen.items()) or 'none'}. "
                + (
                    f"Type all but one of {empty}."
                    if chosen
                    else "Type algo.target_update.updates=200."
                )
            )
        ((unit, self.period),) = chosen.items()
        self._count = attrgetter(unit)
        self.tau = tau
        self.done_at = 0

    def due(self, clock: Clock) -> bool:
        """Whether a period has passed since the last update; if so, the next one begins."""
        now: int = self._count(clock)
        if now - self.done_at < self.period:
            return False
        self.done_at = now
        return True
