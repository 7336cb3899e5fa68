"""Buffers: stored steps, sampled in windows. Public names are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltrain.common.imports import import_name

if TYPE_CHECKING:
    from rltrain.buffer.episode import EpisodeBuffer as EpisodeBuffer
    from rltrain.buffer.on_policy import OnPolicyBuffer as OnPolicyBuffer
    from rltrain.buffer.replay import ReplayBuffer as ReplayBuffer

_EXPORTS = {
    "EpisodeBuffer": "episode",
    "OnPolicyBuffer": "on_policy",
    "ReplayBuffer": "replay",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _EXPORTS, name)
