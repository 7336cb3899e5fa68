"""Apply each mutation to a copy of the package and run the tests that must detect it: ``python -m
benchmarks.mutants [NAME …]``. The counts are in ``benchmarks/data/mutants.json``; a run of some
mutations replaces their counts.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.mutants.table import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks/data/mutants.json"
COPIED = ("rltrain", "conf", "tests", "benchmarks/__init__.py", "benchmarks/mutants")
COPIED_FILES = ("pyproject.toml", "Makefile")
TIMEOUT, ALL_TIMEOUT = 240.0, 1800.0
"""Time limits in seconds: tests of one mutation, and all tests without one."""
WARM = (
    *("torch", "torch.optim", "numba", "numba.core.caching", "llvmlite", "hydra", "omegaconf"),
    *("pydantic", "safetensors.torch", "gymnasium", "pettingzoo", "psutil", "rich.live"),
    *("matplotlib.figure", "PIL.Image", "pytest", "scipy", "pandas"),
)
"""Packages imported once, before the test processes are forked."""
OURS = ("rltrain", "tests", "benchmarks")
FORK = multiprocessing.get_context("fork")
NOTICED, PASSED = 1, 0
"""Exit codes of pytest: a test failed; all passed."""


def copy_to(folder: Path) -> None:
    """The package and its tests, with the machine code of this checkout."""
    for name in (*COPIED, *COPIED_FILES):
        source, copy = ROOT / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy)
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rltrain"
    rooms = {path.parent.relative_to(ROOT) for path in (ROOT / "rltrain").rglob("*.py")}
    for room in rooms:
        for cache in base.glob(f"numba-*/{cached(ROOT / room)}"):
            there = folder / ".cache/rltrain" / cache.parent.name / cached(folder / room)
            shutil.copytree(cache, there)


def cached(room: Path) -> str:
    """The name of Numba's cache of the files of a folder."""
    return f"{room.name}_{hashlib.sha1(str(room).encode()).hexdigest()}"


def pytest_code(folder: Path, paths: list[str], timeout: float = TIMEOUT) -> int | None:
    """The exit code of these tests in the copy; None after ``timeout`` seconds."""
    process = FORK.Process(target=run_tests, args=(folder, paths))
    process.start()
    process.join(timeout)
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None
    return process.exitcode


def run_tests(folder: Path, paths: list[str]) -> None:
    """Run tests in this process, whose imports of other packages are those of its parent."""
    os.setsid()
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1), os.dup2(output, 2)
    os.chdir(folder)
    os.environ.update(PYTHONPATH=str(folder), XDG_CACHE_HOME=str(folder / ".cache"))
    sys.path.insert(0, str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    import pytest

    words = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *paths]
    code = int(pytest.main(words))
    sys.stdout.flush()
    os._exit(code)


def survives(folder: Path, mutation: Mutation) -> bool:
    """Whether all tests pass with this mutation.

    Raises:
        RuntimeError: the tests could not be run.
    """
    path = folder / "rltrain" / mutation.file
    plain, times = path.read_text(encoding="utf-8"), path.stat()
    assert plain.count(mutation.old) == 1, f"{mutation} does not apply"
    path.write_text(plain.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        code = pytest_code(folder, mutation.paths)
    finally:
        path.write_text(plain, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its machine code stays valid
    if code not in (NOTICED, PASSED, None):
        raise RuntimeError(f"exit code {code}: {(folder / 'output.txt').read_text()[-2000:]}")
    return code == PASSED


def about() -> dict[str, Any]:
    """What the mutations were applied to, and where."""
    from rltrain.hardware.device import machine
    from rltrain.mode.run_folder import git_state

    return {**git_state(), "machine": machine()}


def keep(names: list[str], survivors: list[str], minutes: float, facts: dict[str, Any]) -> None:
    """Write the counts of all mutations; those of some replace what was kept of them."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if len(names) < len(MUTATIONS) else {}
    survived = [name for name in kept.get("survived", []) if name not in names] + survivors
    record = {
        "mutations": len(MUTATIONS),
        "killed": len(MUTATIONS) - len(survived),
        "survived": survived,
        "minutes": round(kept.get("minutes", 0.0) + minutes, 1),
        **facts,
    }
    KEPT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants")
    parser.add_argument("names", nargs="*", help="of mutations; all of them without one")
    names = parser.parse_args().names or list(MUTATIONS)
    began, survivors = time.monotonic(), []
    for name in WARM:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        copy_to(folder)
        with ProcessPoolExecutor(1, FORK) as pool:
            facts = pool.submit(about).result()
        everything = sorted({path for name in names for path in MUTATIONS[name].paths})
        if pytest_code(folder, everything, ALL_TIMEOUT) != PASSED:
            print((folder / "output.txt").read_text()[-4000:], "The tests fail without a mutation.")
            return 1
        for name in names:
            start = time.monotonic()
            survived = survives(folder, MUTATIONS[name])
            survivors += [name] if survived else []
            seconds = time.monotonic() - start
            print(f"{'SURVIVED' if survived else 'killed':8} {seconds:4.0f} s  {name}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(names) - len(survivors)} of {len(names)} killed in {minutes:.1f} minutes")
    keep(names, survivors, minutes, facts)
    return 0 if len(survivors) <= 0.1 * len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
