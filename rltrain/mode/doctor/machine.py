"""mode=doctor: what is installed and what is missing, with the command that installs it.

To add a check: a function that returns findings, and its line in ``examine``. Packages that may be
missing are imported inside the functions.
"""

from __future__ import annotations

import netrc
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement
from rich.table import Table
from rich.text import Text

import rltrain
from rltrain.battles.data.maps import map_names
from rltrain.battles.data.smacv2_config import MAP_FILE
from rltrain.common.install import (
    install_command,
    install_extra,
    installed_version,
    requirements,
)
from rltrain.env.smac.starcraft2 import installation
from rltrain.logger.screen import Screen
from rltrain.video.ffmpeg import find_ffmpeg

Verdict = Literal["ok", "optional", "missing"]
OLDEST_PYTHON = (3, 11)
NEEDED_DISK = 2 * 10**9
"""Bytes that a default run may write: three checkpoints and one replay."""
CPU_FLAGS = ("sse4_2", "avx2", "fma", "avx512f")


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``missing`` prevents the main job from running, ``optional`` does
    not.
    """

    what: str
    verdict: Verdict
    fact: str
    fix: str = ""


def finding(what: str, good: Any, fact: str, fix: str = "", *, needed: bool = False) -> Finding:
    """A finding, with the command that fixes it unless it is ``good``."""
    verdict: Verdict = "ok" if good else "missing" if needed else "optional"
    return Finding(what, verdict, fact, "" if good else fix)


def examine(outputs: Path) -> list[Finding]:
    """All findings in the order of the table; only the packages if a needed one is missing."""
    first = [*python(), *packages()]
    if not runs(first):
        return first
    return [
        *first,
        *device(),
        *compiler(),
        *engine_cache(),
        *disk(outputs),
        *real_game(),
        *tools(os.environ),
    ]


def runs(findings: list[Finding]) -> bool:
    """Whether the main job would run."""
    return all(finding.verdict != "missing" for finding in findings)


def python() -> Iterator[Finding]:
    """The interpreter and rltrain itself."""
    fact = f"{platform.python_version()} at {sys.executable}"
    fix = "install Python 3.12 from https://www.python.org and make a new .venv"
    yield finding("Python", sys.version_info >= OLDEST_PYTHON, fact, fix, needed=True)
    yield finding("rltrain", True, f"{rltrain.__version__} at {Path(rltrain.__file__).parent}")


def packages() -> Iterator[Finding]:
    """The packages that rltrain requires and those of its extras, read from its metadata: a line
    each, with all extras that name it.
    """
    extras: dict[str, list[str]] = {}
    for requirement, extra in requirements():
        extras.setdefault(requirement, []).append(extra)
    for requirement, named in extras.items():
        parsed = Requirement(requirement)
        name, accepted = parsed.name, parsed.specifier
        version = installed_version(name)
        enough = bool(version) and accepted.contains(str(version), prereleases=True)
        fact = version or "not installed"
        fact += f"; expected {accepted}" if version and not enough else ""
        what = f"{name} [{', '.join(named)}]" if all(named) else name
        yield finding(what, enough, fact, install_command(requirement), needed="" in named)


def device() -> Iterator[Finding]:
    """GPU, CPU, memory."""
    import torch

    from rltrain.common.numba_cache import MAX_THREADS
    from rltrain.hardware.device import available_cores, machine

    about = machine()
    build = "CPU build" if torch.version.cuda is None else f"CUDA {torch.version.cuda}"
    fix = "with an NVIDIA card: the command that https://pytorch.org/get-started/locally shows"
    fact = f"{about['gpu'] or 'none'}; torch {torch.__version__} ({build})"
    yield finding("GPU", about["gpu"], fact, fix)
    flags = [flag for flag in CPU_FLAGS if flag in cpu_flags()]
    yield finding(
        "CPU",
        True,
        f"{about['cpu']}, {available_cores()} cores, {' '.join(flags) or 'features unknown'}; "
        f"{torch.get_num_threads()} torch threads, {MAX_THREADS} engine threads at most",
    )
    yield finding("memory", True, gigabytes(about["memory_bytes"]))


def cpu_flags() -> set[str]:
    """The processor's features as Linux lists them; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    return set(text.partition("flags")[2].partition("\n")[0].partition(":")[2].split())


def compiler() -> Iterator[Finding]:
    """Whether Numba compiles a function of the battle engine, where the installed version has not
    compiled the engine already: it may be too old for it.
    """
    import numpy as np

    from rltrain.battles.engine.combat import nearest_living
    from rltrain.battles.engine.compile_cache import is_compiled
    from rltrain.battles.engine.env_step import advance_serial
    from rltrain.battles.engine.world import U
    from rltrain.common.compilation import compile_problem

    if is_compiled(advance_serial):
        return
    problem = compile_problem(nearest_living, np.zeros((len(U), 2), np.float32), 1, 0)
    fact = problem or "compiles a function of the battle engine"
    needs = [name for name, _ in requirements() if name.startswith(("numba", "llvmlite"))]
    yield finding("Numba's compiler", problem is None, fact, install_command(*needs), needed=True)


def engine_cache() -> Iterator[Finding]:
    """Where machine code is kept, and whether the battle engine is in it."""
    from rltrain.battles.engine.compile_cache import cache_folder, is_compiled
    from rltrain.battles.engine.env_step import advance_serial

    folder = cache_folder()
    if folder.name.startswith("rltrain-battles-"):
        fact = "cannot be written: every run compiles again, a minute or two"
        yield finding("compile cache", False, fact, "export XDG_CACHE_HOME=A_WRITABLE_FOLDER")
    elif is_compiled(advance_serial):
        yield finding("compile cache", True, f"the battle engine is compiled, in {folder}")
    else:
        fact = f"writable ({folder}); the first run compiles for a minute or two"
        yield finding("compile cache", False, fact, "python -m rltrain.battles")


def disk(outputs: Path) -> Iterator[Finding]:
    """Whether runs can be written."""
    existing = outputs
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK):
        fact = f"{existing} cannot be written"
        yield finding("outputs/", False, fact, "cd to a folder of yours", needed=True)
        return
    free = shutil.disk_usage(existing).free
    fact, fix = f"{gigabytes(free)} free in {existing}", "there, or cd to a larger disk"
    fix = f"free {gigabytes(NEEDED_DISK)} {fix}"
    yield finding("outputs/", free >= NEEDED_DISK, fact, fix, needed=True)


def gigabytes(n_bytes: int) -> str:
    """A number of bytes in GB."""
    return f"{n_bytes / 1e9:.1f} GB"


def real_game() -> Iterator[Finding]:
    """StarCraft II with SMAC and SMACv2, which only env.backend=sc2 needs."""
    for package in installation.ENV_FILES:
        folder = installation.package_folder(package)
        fact, fix = str(folder or "not installed"), installation.package_fix(package)
        yield finding(f"{package} package", folder, fact, fix)
    absent = [m for m in installation.NEEDED_MODULES if not installation.module_found(m)]
    fact = f"not installed: {', '.join(absent)}" if absent else "installed"
    fix = install_command(*installation.NEEDED_PACKAGES)
    yield finding("their modules", not absent, fact, fix)
    where = "SC2PATH" if "SC2PATH" in os.environ else "SC2PATH is not set"
    versions = installation.game_versions()
    fact = f"{', '.join(versions) or 'not found'} in {installation.game_folder()} ({where})"
    yield finding("StarCraft II", versions, fact, installation.game_fix())
    lacks = [name for name in map_names() if not installation.map_found(name)]
    total = len(map_names())
    listed = "all of them" if len(lacks) == total else ", ".join(lacks)
    fact = f"{total - len(lacks)} of {total}" + (f"; missing: {listed}" if lacks else "")
    yield finding("SMAC maps", not lacks, fact, installation.map_fix("smac"))
    flat = installation.map_found(MAP_FILE)
    fact = f"{MAP_FILE}.SC2Map is {'there' if flat else 'missing'}"
    yield finding("SMACv2 map", flat, fact, installation.map_fix("smacv2"))
    yield finding("env=smac plays on", True, installation.choose_backend("auto", "smac", "3m"))


def tools(environment: Mapping[str, str]) -> Iterator[Finding]:
    """ffmpeg, pygame and wandb."""
    ffmpeg = find_ffmpeg()
    fact = ffmpeg or "not found: videos are GIF only, no MP4"
    yield finding("ffmpeg", ffmpeg, fact, install_extra("video"))
    if installed_version("pygame") and installed_version("pygame-ce"):
        fact = "pygame and pygame-ce are both installed; each overwrites files of the other"
        fix = f"{shlex.quote(sys.executable)} -m pip uninstall -y pygame pygame-ce && "
        yield finding("pygame", False, fact, fix + install_extra("classic-control"))
    mode = environment.get("WANDB_MODE", "offline")
    key = wandb_key_known(environment)
    fact = f"mode {mode}, {'a key is known' if key else 'no key: runs stay on this machine'}"
    yield finding("wandb", key, fact, "wandb login, then logger.wandb.mode=online")


def wandb_key_known(environment: Mapping[str, str]) -> bool:
    """Whether there is a key with which wandb can log in."""
    if environment.get("WANDB_API_KEY"):
        return True
    try:
        return "api.wandb.ai" in netrc.netrc().hosts
    except (OSError, netrc.NetrcParseError):
        return False


def show(findings: list[Finding]) -> None:
    """Print the table, and below it what is missing and whether the main job runs."""
    console = Screen()
    table = Table(title="rltrain mode=doctor")
    table.add_column("")
    table.add_column("what")
    table.add_column("found", overflow="fold")
    marks = {"ok": ("✓", "green"), "optional": ("–", "yellow"), "missing": ("✗", "red")}
    for each in findings:
        table.add_row(Text(*marks[each.verdict]), each.what, each.fact)
    console.print(table)
    for verdict, words in (("missing", "Needed:"), ("optional", "Optional:")):
        fixes = [f for f in findings if f.verdict == verdict and f.fix]
        if fixes:
            console.print(f"\n{words}")
        for each in fixes:
            console.print(f"  {each.what}: {each.fix}", soft_wrap=True)
    console.print(
        "\nThe main job (rltrain algo=qmix env=smac) runs here."
        if runs(findings)
        else "\nThe main job does not run here yet: see what is needed above."
    )
