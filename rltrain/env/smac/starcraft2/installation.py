"""Installed parts of StarCraft II (the ``smac`` or ``smacv2`` package, the game, its maps) and the
commands that install missing ones, without importing or starting anything.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rltrain.common.machine.install import install_command

Package = Literal["smac", "smacv2"]
Backend = Literal["auto", "native", "sc2"]

ENV_FILES: dict[Package, str] = {
    "smac": "env/starcraft2/starcraft2.py",
    "smacv2": "env/starcraft2/wrapper.py",
}
"""Distinguishes the package from one of the same name: ``pip install smac`` is an optimizer."""
NEEDED_MODULES = ("pysc2", "s2clientprotocol", "absl")
"""The modules that both packages import. They are installed without their own pins
(protobuf below 3.21), which no recent wandb accepts."""
NEEDED_PACKAGES = ("pysc2", "s2clientprotocol", "absl-py")
"""The distributions of those modules."""
MAP_ARCHIVES: dict[Package, str] = {
    "smac": "https://github.com/oxwhirl/smac/releases/download/v0.1-beta1/SMAC_Maps.zip",
    "smacv2": "https://github.com/oxwhirl/smacv2/releases/download/maps/SMAC_Maps.zip",
}
GAME_ARCHIVE = "http://blzdistsc2-a.akamaihd.net/Linux/SC2.4.10.zip"
ARCHIVED_AS = "StarCraftII"
"""The folder in that archive."""


@dataclass(frozen=True)
class Missing:
    """A missing part, and the command that installs it."""

    what: str
    fix: str


def module_found(name: str) -> bool:
    """Whether a top-level module could be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a module put into sys.modules directly
        return True


def package_folder(package: Package) -> Path | None:
    """The folder of the installed SMAC or SMACv2, or None."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / ENV_FILES[package]).is_file():
            return Path(place)
    return None


def game_folder() -> Path:
    """The expected folder of StarCraft II: ``SC2PATH``, or its installer's default."""
    usual = {
        "darwin": "/Applications/StarCraft II",
        "win32": "C:/Program Files (x86)/StarCraft II",
    }
    found = os.environ.get("SC2PATH") or usual.get(sys.platform, "~/StarCraftII")
    return Path(found).expanduser()


def game_versions() -> list[str]:
    """The installed versions of the game (``Base75689``), oldest first."""
    return sorted(p.name for p in (game_folder() / "Versions").glob("Base*") if p.is_dir())


def map_found(name: str) -> bool:
    """Whether the game can load ``<name>.SC2Map``."""
    return (maps_folder() / f"{name}.SC2Map").is_file()


def maps_folder() -> Path:
    """The folder in which both packages look for their maps."""
    return game_folder() / "Maps" / "SMAC_Maps"


def package_fix(package: Package) -> str:
    """The commands that install a package next to wandb."""
    source = install_command("--no-deps", f"git+https://github.com/oxwhirl/{package}.git")
    return f"{source} && {install_command(*NEEDED_PACKAGES)}"


def game_fix() -> str:
    """The commands that install the game; its password accepts Blizzard's AI and machine learning
    license."""
    if sys.platform != "linux":
        return "install StarCraft II from https://battle.net, or set SC2PATH to its folder"
    folder = game_folder()
    fetch = f"wget -O SC2.zip {GAME_ARCHIVE}"
    unpack = f"mkdir -p '{folder.parent}' && unzip -P iagreetotheeula SC2.zip -d '{folder.parent}'"
    move = f" && mv '{folder.parent / ARCHIVED_AS}' '{folder}'"  # the archive has its own name
    return f"{fetch} && {unpack}{move if folder.name != ARCHIVED_AS else ''}"


def map_fix(package: Package) -> str:
    """The commands that install a package's maps, for any folders in their archive."""
    file = f"{package}_maps.zip"
    return (
        f"mkdir -p '{maps_folder()}' && wget -O {file} {MAP_ARCHIVES[package]} && "
        f"unzip -o -j {file} '*.SC2Map' -d '{maps_folder()}'"
    )


def missing(package: Package, map_file: str) -> list[Missing]:
    """The parts missing to play ``<map_file>.SC2Map`` in the game."""
    found = []
    absent: list[str] = [] if package_folder(package) else [package]
    absent += [name for name in NEEDED_MODULES if not module_found(name)]
    if absent:
        found.append(Missing(f"the Python package {', '.join(absent)}", package_fix(package)))
    if not game_versions():
        found.append(Missing(f"StarCraft II in {game_folder()}", game_fix()))
    if not map_found(map_file):
        what = f"the map {map_file}.SC2Map in {maps_folder()}"
        found.append(Missing(what, map_fix(package)))
    return found


def choose_backend(
    wanted: Backend, package: Package, map_file: str, *, scripted: bool = False
) -> Literal["native", "sc2"]:
    """The engine to use: ``auto`` is the game if package, game and map are installed, except for a
    ``scripted`` policy, which reads the built-in engine's battles.

    Raises:
        ValueError: ``sc2`` and a part is missing; the message says how to install it.
    """
    if wanted == "native" or (wanted == "auto" and (scripted or package_folder(package) is None)):
        return "native"
    lacks = missing(package, map_file)
    if wanted == "sc2" and lacks:
        lines = "\n".join(f"  {each.what}: {each.fix}" for each in lacks)
        raise ValueError(
            f"env.backend=sc2 plays in StarCraft II itself; missing on this machine:\n{lines}\n"
            "Install that (rltrain mode=doctor checks again), or type env.backend=native to play "
            "on the built-in engine."
        )
    return "native" if lacks else "sc2"


def about_game(package: Package, version: str | None = None) -> dict[str, str]:
    """The game for banner and records: the requested version, otherwise the newest."""
    return {"backend": "sc2", "package": package, "game": version or game_versions()[-1]}
