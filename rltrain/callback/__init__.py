"""Callbacks: the base class with its hooks, and those that test, save, log and stop."""

from rltrain.callback.health import Health
from rltrain.callback.hooks import Callback, Callbacks
from rltrain.callback.obs_statistics import ObsStatistics
from rltrain.callback.periodic import DrawCurve, Due, Log, Save, Stop, Test
from rltrain.callback.training import Training

__all__ = [
    "Callback",
    "Callbacks",
    "DrawCurve",
    "Due",
    "Health",
    "Log",
    "ObsStatistics",
    "Save",
    "Stop",
    "Test",
    "Training",
]
