"""The learning curve in the run folder."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training
from rltrain.logger import curve

log = logging.getLogger("rltrain")


@dataclass(kw_only=True, eq=False)
class DrawCurve(Callback):
    """Redraws the curve after tests, at most once per ``every`` seconds, and at the end."""

    title: str
    every: float = 60.0
    drawn_at: float = field(default_factory=time.monotonic)

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        if time.monotonic() - self.drawn_at >= self.every:
            self.draw(trainer)
        return value

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        self.draw(trainer)

    def draw(self, trainer: Training) -> None:
        try:
            trainer.disk.attempt("the curve", lambda: curve.draw(trainer.run_dir, self.title))
        except Exception as error:  # in matplotlib; does not end the run
            log.warning("could not draw the curve (%s); the run continues", error, exc_info=True)
        self.drawn_at = time.monotonic()
