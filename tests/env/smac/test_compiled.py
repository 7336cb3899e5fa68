"""The cache of compiled code follows the sources."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.env import smac
from rltrain.env.smac import compiled

PACKAGE = Path(smac.__file__).parent


def test_every_module_with_compiled_code_is_in_the_hash() -> None:
    for path in PACKAGE.glob("*.py"):
        tree = ast.parse(path.read_text())
        decorated = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        if any("njit" in ast.dump(d) for node in decorated for d in node.decorator_list):
            assert path.stem in compiled.KERNEL_FILES
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and "smac." in (node.module or ""):
                    assert node.module.rsplit(".")[-1] in compiled.KERNEL_FILES


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, rltrain.env.smac; assert not {'numba', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parents[2])


def test_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'StarCraft3Env'"):
        smac.StarCraft3Env  # noqa: B018


def test_change_in_a_helper_is_seen(tmp_path: Path) -> None:
    """A caller in one file, its helper's constant in another: Numba alone would run the old code."""
    (tmp_path / "rltrain" / "env").mkdir(parents=True)
    copy = tmp_path / "rltrain" / "env" / "smac"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import numpy as np; from rltrain.env.smac import avoidance, compiled; "
        "walls = np.array([[0, 0, 10, 0]], np.float32); unit = np.ones((17, 1), np.float32); "
        "param = np.full((13, 1), 2, np.float32); near = np.ones((32, 32), np.uint8); "
        "lines = np.zeros((4, 4), np.float32); "
        "avoidance.wall_lines(unit, param, 0, walls, near, lines); "
        "print(float(lines[0, 1]), compiled.settings.CACHE_DIR)"
    )

    def run() -> list[str]:
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    before = run()
    assert before[0] == "16.0"
    assert before == run()
    helper = copy / "avoidance.py"
    helper.write_text(helper.read_text().replace("LOOPS, LOOP = F(16)", "LOOPS, LOOP = F(32)"))
    after = run()
    assert after[0] == "32.0"
    assert after[1] != before[1]
