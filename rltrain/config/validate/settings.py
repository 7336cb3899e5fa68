"""Validate a composition."""

from __future__ import annotations

from dataclasses import replace

from rltrain.config.compose import Composition
from rltrain.config.schema import Settings
from rltrain.config.validate.whole import check

__all__ = ["check", "check_composition"]


def check_composition(composed: Composition) -> Settings:
    """Types and ranges of a composition.

    Raises:
        UsageError: every problem at once.
    """
    settings = check(composed.plain, composed.choices, composed.defaults)
    return replace(settings, remarks=composed.remarks, algo_of_env=composed.algo_of_env)
