"""rltrain: value-based reinforcement learning, single-agent and cooperative multi-agent.

The command is ``rltrain``; the same from Python is ``train``, ``evaluate``, ``load_policy``,
``make_trainer`` and ``make_learner``. Nothing heavy is imported until one of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Result", "evaluate", "load_policy", "make_learner", "make_trainer", "train"]

if TYPE_CHECKING:
    from rltrain.api import Result, evaluate, load_policy, make_learner, make_trainer, train


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rltrain import api

        return getattr(api, name)
    raise AttributeError(f"module 'rltrain' has no attribute '{name}'")
