"""Callbacks: the base class with its hooks, and callbacks that test, save, log and stop."""

from rltrain.common.imports import public_names

__all__, __getattr__ = public_names(__name__)
