"""Buffers: stored steps, sampled in windows. Public names are imported on first use."""

from rltrain.common.imports import public_names

__all__, __getattr__ = public_names(__name__)
