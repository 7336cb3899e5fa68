"""Importing by name: public names of a package on first use, and modules of the user."""

from __future__ import annotations

import ast
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from rltrain.errors import UsageError

SAFE_PATH = "PYTHONSAFEPATH"


def public_names(package: str) -> tuple[list[str], Callable[[str], Any]]:
    """``__all__`` and ``__getattr__`` of a package: what its ``__init__.pyi`` imports, lazily."""
    stub = ast.parse(pkgutil.get_data(package, "__init__.pyi") or b"")
    lines = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(line.module) for line in lines for alias in line.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return list(homes), find


def import_path() -> dict[str, str]:
    """The environment variables of a process that imports modules from where this one does: not
    from the current folder, which Python puts first for ``-c`` and ``-m``. Someone else's files
    may lie there.
    """
    return {} if {os.getcwd(), ""} & set(sys.path) else {SAFE_PATH: "1"}


@contextmanager
def beside_user(module: str) -> Iterator[None]:
    """Let a module that the user typed or trusts be imported from the current folder, if no
    installed package has its name.

    The folder stands last on the import path, and only here, so that what an installed package
    imports is never taken from it: an optional package may be missing.
    """
    folder, package = os.getcwd(), module.partition(".")[0]
    specs = (finder.find_spec(package, None) for finder in sys.meta_path)
    installed = any(spec is not None and spec.loader is not None for spec in specs)
    if installed or folder in sys.path or "" in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def locate(target: str) -> Callable[..., Any]:
    """The class or function that a ``_target_`` names; its module may be in the current folder.

    Raises:
        UsageError: no such module or name.
    """
    module, _, name = target.rpartition(".")
    try:
        with beside_user(module):
            # with ":" an import error stays itself
            target_object: Any = pkgutil.resolve_name(f"{module}:{name}")
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"_target_ '{target}' cannot be found ({error}). Expected the full name of a class "
            "or function, such as rltrain.algo.QMix, or my_module.MyClass with my_module.py in "
            "this folder."
        ) from error
    if not callable(target_object):
        raise UsageError(f"_target_ '{target}' is not a class or function, but {target_object!r}.")
    return target_object
