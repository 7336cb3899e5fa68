"""StarCraft II micromanagement: SMAC's maps and interface over our own battle engine. Importing
this is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "SmacVectorEnv": "rltrain.env.smac.vector",
    "StarCraft2Env": "rltrain.env.smac.starcraft2",
    "parallel_env": "rltrain.env.smac.parallel",
    "compile_engine": "rltrain.env.smac.__main__",
}
__all__ = ["SmacVectorEnv", "StarCraft2Env", "compile_engine", "parallel_env"]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)
