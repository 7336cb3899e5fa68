"""Detects plain code that was replaced in memory after its compiled counterparts were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training
from rltrain.kernels import Kernels
from rltrain.kernels.digests import leave_replaced as leave_replaced


@dataclass(kw_only=True, eq=False)
class ReplacedCode(Callback):
    """Makes PyTorch compute what other callbacks replaced, from ``on_train_start``, the next test
    or the next gradient step on.

    Args:
        choice: ``hardware.kernels``; ``compiled`` raises ValueError until training has started.
    """

    only_counts = True
    choice: Kernels

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self.look(trainer)
        self.choice = "auto"

    def look(self, trainer: Training, value: Any = None) -> Any:
        leave_replaced(self.choice == "compiled")
        return value

    on_test_start = on_collect = on_batch = on_iteration = look
