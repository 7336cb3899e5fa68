"""The cache of compiled code follows the sources."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.battles.engine import kernel
from rltrain.env import smac

PACKAGE = Path(smac.__file__).parent


def test_every_module_with_compiled_code_is_in_the_hash() -> None:
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        decorated = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        if any("njit" in ast.dump(d) for node in decorated for d in node.decorator_list):
            assert str(path.relative_to(PACKAGE).with_suffix("")) in kernel.KERNEL_FILES
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and "smac." in (node.module or ""):
                    module = node.module.partition("smac.")[2].replace(".", "/")
                    assert module in kernel.KERNEL_FILES


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, rltrain.env.smac; assert not {'numba', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parents[2])


def test_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'StarCraft3Env'"):
        smac.StarCraft3Env  # noqa: B018


@pytest.mark.slow
def test_change_in_another_file_is_seen(tmp_path: Path) -> None:
    """A constant of world.py inside a kernel of outcome.py: Numba alone would run the old code."""
    copy = tmp_path / "rltrain"
    shutil.copytree(PACKAGE.parents[1], copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import numpy as np; from rltrain.common.numba_cache import cache_folder; "
        "from rltrain.battles.engine import kernel, outcome; "
        "z = np.zeros((24, 2), np.float32); "
        "print(outcome.outcome_of(z, z, 1, False, 60, 1), cache_folder(*kernel.SOURCES))"
    )

    def run() -> list[str]:
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-c", code]
        options = {"cwd": tmp_path, "env": environment, "text": True, "check": True}
        return subprocess.run(command, stdout=subprocess.PIPE, **options).stdout.split()

    draw, folder = run()
    assert draw == "3"
    assert Path(folder).is_relative_to(tmp_path / "cache" / "rltrain")
    helper = copy / "env" / "smac" / "engine" / "world.py"
    helper.write_text(helper.read_text().replace("    DRAW = 3\n", "    DRAW = 13\n"))
    draw, other_folder = run()
    assert draw == "13"
    assert other_folder != folder
