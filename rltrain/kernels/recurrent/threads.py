"""How many threads compute a learning step: measured, since it changes no number."""

from __future__ import annotations

import logging
from statistics import median

log = logging.getLogger("rltrain")
SKIPPED, TRIES, PERIOD, GAIN = 2, 5, 1000, 0.9
"""First steps not measured, steps of each number, steps between measurements, and the share of the
time with fewer threads that more of them have to get by with."""


class MeasuredThreads:
    """The number of threads that is fastest under the current load, measured in the first steps and
    again every ``PERIOD`` steps; the first choice and every other one are logged.

    Args:
        most: threads of use.
    """

    def __init__(self, most: int) -> None:
        self.counts = [n for n in (1, 2, 4) if n < most] + [most]
        self.best = self.counts[0]
        self._logged = 0  # last choice that was logged
        self._wait = SKIPPED if most > 1 else -1  # steps until a measurement; -1: never
        self._taken: dict[int, list[float]] = {}

    @property
    def n(self) -> int:
        """Threads of the coming step: each number in turn while they are measured."""
        if not self._taken:
            return self.best
        return min(self.counts, key=lambda n: len(self._taken[n]))

    def took(self, seconds: float, work: int) -> None:
        """Count a step of ``n`` threads; ``work`` is what its duration grows with."""
        if self._taken:
            self._taken[self.n].append(seconds / max(work, 1))
            if min(map(len, self._taken.values())) == TRIES:
                self._choose(work)
        elif self._wait == 0:
            self._taken = {n: [] for n in self.counts}
        elif self._wait > 0:
            self._wait -= 1

    def _choose(self, work: int) -> None:
        taken = {n: median(each) for n, each in self._taken.items()}
        self.best, self._taken, self._wait = 1, {}, PERIOD
        for n in self.counts[1:]:
            if taken[n] < GAIN * taken[self.best]:
                self.best = n
        if self.best != self._logged:
            times = ", ".join(f"{1e3 * t * work:.3g} ms with {n}" for n, t in taken.items())
            log.info(
                "The learner uses %d thread%s: a learning step takes %s. hardware.threads sets "
                "another number.",
                self.best,
                "" if self.best == 1 else "s",
                times,
            )
            self._logged = self.best
