"""StarCraft II micromanagement: SMAC's maps and interface over our own battle engine. Importing
this is cheap."""

from __future__ import annotations

from typing import Any

from rltrain.common.imports import import_name

_EXPORTS = {
    "SmacVectorEnv": "vector",
    "Smacv2VectorEnv": "smacv2",
    "StarCraft2Env": "starcraft2_env",
    "StarCraftCapabilityEnv": "smacv2",
    "compile_engine": "__main__",
    "parallel_env": "pettingzoo",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _EXPORTS, name)
