"""StarCraft II micromanagement: SMAC's maps and interface over our own battle engine. Importing
this is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "SmacVectorEnv": "rltrain.env.smac.vector",
    "Smacv2VectorEnv": "rltrain.env.smac.capability",
    "StarCraft2Env": "rltrain.env.smac.starcraft2",
    "StarCraftCapabilityEnv": "rltrain.env.smac.capability",
    "parallel_env": "rltrain.env.smac.parallel",
    "compile_engine": "rltrain.env.smac.__main__",
}
__all__ = [
    "SmacVectorEnv",
    "Smacv2VectorEnv",
    "StarCraft2Env",
    "StarCraftCapabilityEnv",
    "compile_engine",
    "parallel_env",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)
