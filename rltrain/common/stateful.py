"""The state of parts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rltrain.types import StateDict


class Stateful:
    """A part of a run, which may have state: plain values, arrays and tensors."""

    def state_dict(self) -> StateDict:
        """What changes while training; saved in checkpoints."""
        return {}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore what ``state_dict`` returned."""
        return
