"""Notices plain code that was replaced in memory after its compiled counterparts were made."""

from __future__ import annotations

from rltrain import kernels
from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training


class ReplacedCode(Callback):
    """Lets PyTorch compute what other callbacks replaced: from ``on_train_start`` on, and from each
    line of training metrics on.

    Args:
        choice: ``hardware.kernels``; with ``compiled`` a ValueError when training starts.
    """

    def __init__(self, *, choice: kernels.Kernels) -> None:
        self.choice = choice

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        kernels.leave_replaced(self.choice)

    def on_log(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        kernels.leave_replaced()
        return value
