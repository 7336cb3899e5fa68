"""The order of a team's agents: that of the networks, whatever the order is in which another
process, or another environment, names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltrain.common import checkpoint
from rltrain.common.checkpoint import SPEC
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError


def ordered_as(settings: Settings, record: Mapping[str, Any]) -> Settings:
    """The settings whose environments have their agents in the order of a spec.

    Args:
        record: ``EnvSpec.record``, also as read from JSON; without names nothing changes.
    """
    try:
        names = tuple(str(name) for name, *_ in record["agents"] or ())
    except (KeyError, TypeError, ValueError):  # the comparison of the specs reports it
        return settings
    return replace(settings, agent_order=names) if names else settings


def ordered_as_saved(settings: Settings, folder: Path) -> Settings:
    """The same for the spec of a checkpoint, if it can be read."""
    try:
        return ordered_as(settings, checkpoint.read(folder, SPEC))
    except CheckpointError:  # the restore reports it
        return settings
