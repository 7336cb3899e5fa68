"""The packages of rltrain's extras, and the command that installs a package into this Python."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shlex
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
SAME_MODULE = {"pygame-ce": "pygame"}
"""Distributions that provide a module which another one may provide already; never install both."""


def install_command(*packages: str) -> str:
    """The command that installs packages into the Python that runs: ``…/python -m pip install``."""
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def install_extra(extra: str) -> str:
    """The command that installs what one of rltrain's extras needs and this Python lacks.

    It names the packages themselves: ``rltrain[extra]`` would fetch whatever an index has under
    rltrain's name.
    """
    needed = [requirement for requirement, at in requirements() if at == extra]
    return install_command(*([r for r in needed if not is_installed(r)] or needed))


class NotInstalled(ValueError):
    """A package that an extra installs is missing."""


def require_extra(extra: str, module: str, typed: str) -> None:
    """Refuse what was typed if one of rltrain's extras is not installed.

    Args:
        module: one that the extra installs.

    Raises:
        NotInstalled: what to type.
    """
    if importlib.util.find_spec(module) is None:
        raise NotInstalled(
            f"{typed} needs {module}, which is not installed: {install_extra(extra)}"
        )


def requirements() -> list[tuple[str, str]]:
    """Every requirement (``numpy>=2.0``) and the extra that it belongs to, or ""."""
    source = Path(__file__).parents[3] / "pyproject.toml"
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    if 'name = "rltrain"' in text:  # newer than the metadata of an editable installation
        project = tomllib.loads(text)["project"]
        extras = project["optional-dependencies"].items()
        return [
            *((line, "") for line in project["dependencies"]),
            *((line, extra) for extra, group in extras for line in group),
        ]
    pairs = []
    for line in importlib.metadata.requires("rltrain") or []:
        requirement, _, condition = line.partition(";")
        extra = EXTRA.search(condition)
        pairs.append((requirement.strip(), extra[1] if extra else ""))
    return pairs


def installed_version(name: str) -> str | None:
    """The version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_installed(requirement: str) -> bool:
    """Whether a distribution is installed, or another one with the same module."""
    name = Requirement(requirement).name
    if installed_version(name) is not None:
        return True
    return name in SAME_MODULE and importlib.util.find_spec(SAME_MODULE[name]) is not None
