"""Detects plain code that was replaced in memory after its compiled counterparts were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rltrain import kernels
from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training


@dataclass(kw_only=True, eq=False)
class ReplacedCode(Callback):
    """Makes PyTorch compute what other callbacks replaced, from ``on_train_start`` or the next
    gradient step on.

    Args:
        choice: ``hardware.kernels``; ``compiled`` raises ValueError when training starts.
    """

    only_counts = True
    choice: kernels.Kernels

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        kernels.leave_replaced(self.choice)

    def look(self, trainer: Training, value: Any = None) -> Any:
        kernels.leave_replaced()
        return value

    on_collect = on_batch = on_iteration = look
