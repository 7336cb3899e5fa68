"""mode=doctor: whether the main job runs here, and what is missing, with the command that installs
it; with ``env=…``, what is wrong with an environment.

To add a check: a function that returns findings, and its line in ``examine``. Packages that may be
missing are imported inside the functions.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from rich.table import Column, Table

import rltrain
from rltrain.battles.data.maps import map_names
from rltrain.battles.data.scenarios import MAP_FILE
from rltrain.common.machine.install import (
    install_command,
    install_extra,
    installed_version,
    requirements,
)
from rltrain.common.machine.streams import say
from rltrain.config.compose import compose_checked
from rltrain.env.smac.starcraft2 import installation
from rltrain.errors import usage_errors
from rltrain.logger.screen import Screen, plural
from rltrain.video.ffmpeg import find_ffmpeg

Verdict = Literal["ok", "optional", "missing"]
OLDEST_PYTHON = (3, 11)
NEEDED_DISK = 2 * 10**9
"""Bytes that a default run may write: three checkpoints and one replay."""
OTHERS = ("dev", "docs", "video")
"""Extras of rltrain's own developers, which ``make`` installs, and the one of ``tools``."""
NO_LIMIT = "episodes without a known limit (env.max_episode_steps sets one)"
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


def finding(what: str, good: object, fact: str, fix: str = "", *, needed: bool = False) -> Finding:
    """A finding, with the command that fixes it unless it is ``good``."""
    verdict: Verdict = "ok" if good else "missing" if needed else "optional"
    return Finding(what, verdict, fact, "" if good else fix)


def examine(outputs: Path, game: bool = False) -> list[Finding]:
    """All findings in the order they are shown; only the packages if a needed one is missing. With
    ``game``, StarCraft II is looked for.
    """
    first = [*python(), *packages()]
    if not runs(first):
        return first
    machine = [*device(), *compiler(), *engine_cache(), *disk(outputs)]
    return [*first, *machine, *(real_game() if game else ()), *extras(), *tools(os.environ)]


def runs(findings: list[Finding]) -> bool:
    """Whether the main job would run."""
    return all(finding.verdict != "missing" for finding in findings)


def python() -> Iterator[Finding]:
    """The interpreter and rltrain itself."""
    fact = f"{platform.python_version()} at {sys.executable}"
    fix = "install Python 3.12 from https://www.python.org and make a new .venv"
    yield finding("Python", sys.version_info >= OLDEST_PYTHON, fact, fix, needed=True)
    yield finding("rltrain", True, f"{rltrain.__version__} at {Path(rltrain.__file__).parent}")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        fact, fix = "set, and Numba's compiler is needed", "unset NUMBA_DISABLE_JIT"
        yield finding("NUMBA_DISABLE_JIT", False, fact, fix, needed=True)


def packages() -> Iterator[Finding]:
    """The packages that rltrain requires and that are missing or too old."""
    for requirement, extra in requirements():
        if not extra and (fact := lacks(requirement)):
            name, fix = Requirement(requirement).name, install_command(requirement)
            yield finding(name, False, fact, fix, needed=True)


def extras() -> Iterator[Finding]:
    """The extras of which a package is missing or too old."""
    wanted: dict[str, list[str]] = {}
    for requirement, extra in requirements():
        if extra and extra not in OTHERS and lacks(requirement):
            wanted.setdefault(extra, []).append(requirement)
    for extra, needed in wanted.items():
        facts = "; ".join(f"{Requirement(each).name} {lacks(each)}" for each in needed)
        yield finding(extra, False, facts, install_command(*needed))


def lacks(requirement: str) -> str:
    """How an installation fails a requirement; empty if it does not."""
    parsed = Requirement(requirement)
    version = installed_version(parsed.name)
    if version and parsed.specifier.contains(version, prereleases=True):
        return ""
    return f"{version}; expected {parsed.specifier}" if version else "not installed"


def device() -> Iterator[Finding]:
    """PyTorch and its GPU, CPU and memory."""
    import torch

    from rltrain.hardware.device import available_cores, cpu_fact, machine

    about = machine()
    build = "CPU build" if torch.version.cuda is None else f"CUDA {torch.version.cuda}"
    yield finding("torch", True, f"{torch.__version__} ({build}), {about['gpu'] or 'no GPU'}")
    flags = [flag for flag in CPU_FLAGS if flag in cpu_fact("flags").split()]
    cores = f"{available_cores()} cores, {' '.join(flags) or 'features unknown'}"
    yield finding("CPU", True, f"{about['cpu']}, {cores}, {gigabytes(about['memory_bytes'])}")


def compiler() -> Iterator[Finding]:
    """Whether Numba compiles a function of the battle engine, where the installed version has not
    compiled the engine already: it may be too old for it.
    """
    import numpy as np

    from rltrain.battles.engine.compile_cache import is_compiled
    from rltrain.battles.engine.env_step import advance_serial
    from rltrain.battles.engine.fighting.combat import nearest
    from rltrain.battles.engine.world import U
    from rltrain.kernels.compilation import compile_problem

    if is_compiled(advance_serial):
        return
    unit = np.zeros((len(U), 2), np.float32)
    problem = compile_problem(nearest, unit, np.zeros((2, 2), np.uint8), 1, 0, True)
    fact = problem or "compiles a function of the battle engine"
    needs = [name for name, _ in requirements() if name.startswith(("numba", "llvmlite"))]
    yield finding("Numba's compiler", problem is None, fact, install_command(*needs), needed=True)


def engine_cache() -> Iterator[Finding]:
    """Where machine code is kept, and whether the battle engine is in it."""
    from rltrain.battles.engine.compile_cache import cache_folder, is_compiled
    from rltrain.battles.engine.env_step import advance_serial

    folder = cache_folder()
    if folder is None:
        fact = "cannot be written: every run compiles again, a minute or two"
        yield finding("compile cache", False, fact, "export XDG_CACHE_HOME=A_WRITABLE_FOLDER")
    elif is_compiled(advance_serial):
        yield finding("compile cache", True, "the battle engine is compiled")
    else:
        fact = f"writable ({folder}); the first run compiles for a minute or two"
        yield finding("compile cache", False, fact, "python -m rltrain.battles")


def disk(outputs: Path) -> Iterator[Finding]:
    """Whether runs can be written."""
    existing = next(folder for folder in (outputs, *outputs.parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        fact = f"{existing} cannot be written"
        yield finding("outputs/", False, fact, "cd to your own folder", needed=True)
        return
    free = shutil.disk_usage(existing).free
    fact = f"{gigabytes(free)} free in {existing}"
    fix = f"free {gigabytes(NEEDED_DISK)} there, or cd to a larger disk"
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
    from rltrain.logger.wandb import has_key

    ffmpeg = find_ffmpeg()
    fact = ffmpeg or "not found: videos are GIF only, no MP4"
    yield finding("ffmpeg", ffmpeg, fact, install_extra("video"))
    if installed_version("pygame") and installed_version("pygame-ce"):
        fact = "pygame and pygame-ce are both installed; each overwrites files of the other"
        fix = f"{shlex.quote(sys.executable)} -m pip uninstall -y pygame pygame-ce && "
        yield finding("pygame", False, fact, fix + install_extra("classic-control"))
    mode = environment.get("WANDB_MODE", "offline")
    key = has_key(environment)
    fact = f"mode {mode}, {'a key is known' if key else 'no key: runs stay on this machine'}"
    yield finding("wandb", key, fact, "wandb login, then logger.wandb.mode=online")


def show(findings: list[Finding]) -> None:
    """Print whether the main job runs, what was found, and what is missing."""
    console = Screen()
    console.print(
        "The main job (rltrain algo=qmix env=smac) runs here."
        if runs(findings)
        else "The main job does not run here yet. It needs:"
    )
    table = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for each in findings:
        if each.verdict == "ok":
            table.add_row(f"  {each.what}", each.fact)
    if runs(findings):
        console.print(table)
    for verdict, words in (("missing", ""), ("optional", "Missing, and needed by some only:")):
        fixes = [f for f in findings if f.verdict == verdict]
        if fixes and words:
            console.print(words)
        for each in fixes:
            console.print(f"  {each.what} ({each.fact}): {each.fix}", soft_wrap=True)


def examine_env(overrides: Sequence[str]) -> bool:
    """Play an environment and print what is wrong with it; whether anything is."""
    from rltrain.assemble.env import build_env
    from rltrain.common.spec_record import channel_text
    from rltrain.env.check import check

    settings = compose_checked(list(overrides)).settings()
    with usage_errors():
        env = build_env(settings, 1, training=True)
    spec = env.spec
    length = f"episodes of at most {plural(spec.max_steps, 'step')}" if spec.max_steps else NO_LIMIT
    channels = f"{words}, " if (words := channel_text(spec.record)) else ""
    say(
        f"env={settings.choices['env']}: {plural(spec.n_agents, 'agent')}, "
        f"{plural(spec.n_actions, 'action')}, observations {list(spec.obs_shape)}, {channels}"
        f"state {spec.state_dim}, {plural(spec.n_rewards, 'reward')}, {length}"
    )
    report = check(env)
    env.close()
    say(report)
    return bool(report.problems)
