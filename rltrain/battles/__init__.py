"""StarCraft II micromanagement: SMAC's maps and interface over a compiled battle engine.

Public names are imported on first use. Nothing here imports the rest of rltrain.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "Battles": "engine.battles",
    "Options": "options",
    "StarCraft2Env": "starcraft2_env",
    "StarCraftCapabilityEnv": "capability_env",
    "compile_engine": "__main__",
    "parallel_env": "pettingzoo",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
