"""rltrain: value-based reinforcement learning, single-agent and cooperative multi-agent.

The command is ``rltrain``; the same from Python is ``train``, ``resume``, ``evaluate``,
``match``, ``load_policy``, ``load_runs``, ``make_trainer`` and ``make_learner``. Nothing heavy is
imported until one of them is used.
"""

from __future__ import annotations

import os

from rltrain.common.imports import public_names

# Read when torch loads its OpenMP. By default its idle threads spin for milliseconds, and on a busy
# machine every small operation then waits for a descheduled one: 600 matrix products of a small
# network took 15.9 s instead of 0.2 s with two threads on two cores that others used too.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__version__ = "0.1.0"
__all__, __getattr__ = public_names(__name__)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
