"""Callbacks that tests name in a configuration."""

from __future__ import annotations

from rltrain.callback import Callback


class Failing(Callback):
    """Raises in the first iteration."""

    def on_iteration(self, trainer, value=None):
        raise ZeroDivisionError("on purpose")
