"""Callbacks: the base class with its hooks, and those that test, save, log and stop."""

from rltrain.callback.draw_curve import DrawCurve
from rltrain.callback.health import Health
from rltrain.callback.hooks import Callback, Callbacks, Due
from rltrain.callback.log import Log
from rltrain.callback.obs_statistics import ObsStatistics
from rltrain.callback.replaced_code import ReplacedCode
from rltrain.callback.save import Save
from rltrain.callback.snapshots import SaveSnapshots
from rltrain.callback.stop import Stop
from rltrain.callback.test import Test
from rltrain.callback.training import Training

__all__ = [
    "Callback",
    "Callbacks",
    "DrawCurve",
    "Due",
    "Health",
    "Log",
    "ObsStatistics",
    "ReplacedCode",
    "Save",
    "SaveSnapshots",
    "Stop",
    "Test",
    "Training",
]
