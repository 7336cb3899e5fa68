"""Imports point down: the floors of the house, read from the source."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rltrain"
FLOORS = {
    "types": 0,
    "ranges": 0,
    "errors": 0,
    "metrics": 1,
    "logger": 1,
    "checkpoint": 1,
    "schedule": 1,
    "memory": 1,
    "compiled": 1,
    "algo": 2,
    "env": 2,
    "buffer": 2,
    "hardware": 2,
    "trainer": 3,
    "callback": 3,
    "moments": 3,
    "examples": 3,
    "offline": 3,
    "settings": 4,
    "checking": 4,
    "config": 4,
    "trusted": 4,
    "build": 4,
    "build_offline": 4,
    "banner": 4,
    "plan": 4,
    "run": 4,
    "caution": 4,
    "evaluation": 4,
    "doctor": 4,
    "report": 4,
    "api": 4,
    "main": 5,
    "__init__": 5,
}
ONLY_IN = {
    "hydra": {"main", "config", "build"},
    "omegaconf": {"main", "config", "build"},
    "wandb": {"logger"},
    "matplotlib": {"report"},
    "PIL": {"env", "report"},
    "psutil": {"memory", "hardware"},
    "numba": {"compiled", "algo", "env"},  # buffer compiles through rltrain.compiled
    "pettingzoo": {"env"},
    "gymnasium": {"env"},
}


def part(path: Path) -> str:
    """The room a file belongs to: its package, or its own name on the ground floor."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@cache
def imports(path: Path) -> set[str]:
    """Full names of imported modules; what only type checkers see is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    here = part(path)
    assert here in FLOORS, f"{path} stands on no floor: add it to FLOORS"
    for name in imports(path):
        words = name.split(".")
        if words[0] != "rltrain" or len(words) == 1:
            continue
        there = words[1]
        if there not in FLOORS or there == here:
            continue
        assert FLOORS[there] <= FLOORS[here], f"{path.name} imports upwards: {name}"
        beside = FLOORS[there] == FLOORS[here] == 2
        assert not beside, f"{path.name}: {here} imports {there}, which stands beside it"


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_library_is_imported_in_its_own_rooms_only(library):
    users = {part(p) for p in FILES if any(n.split(".")[0] == library for n in imports(p))}
    assert users <= ONLY_IN[library]


def test_the_package_imports_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import rltrain, sys; print([m for m in ('torch', 'hydra', 'numba') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
