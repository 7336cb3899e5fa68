"""Public names of a package, imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def import_name(package: str, exports: Mapping[str, str], name: str) -> Any:
    """The public name ``name`` of ``package``; ``exports`` maps names to submodules.

    Raises:
        AttributeError: the package has no such name.
    """
    if name not in exports:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(f"{package}.{exports[name]}"), name)
