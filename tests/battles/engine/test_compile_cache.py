"""The cache of compiled code follows the sources; one that cannot be read or written costs time,
not the run.
"""

import ast
import importlib
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import Mock

import pytest

from rltrain import battles
from rltrain.battles import engine
from rltrain.battles.engine import compile_cache, env_step, reflection, teams
from rltrain.battles.smaclite import env_step as smaclite

PACKAGE = Path(battles.__file__).parent


def test_every_module_with_compiled_code_is_in_the_hash() -> None:
    hashed = compile_cache.kernel_files()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        decorated = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        if any("njit" in ast.dump(d) for node in decorated for d in node.decorator_list):
            assert path in hashed
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and "battles." in (node.module or ""):
                    module = node.module.partition("battles.")[2].replace(".", "/")
                    assert PACKAGE / f"{module}.py" in hashed


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, rltrain.battles, rltrain.env.smac\n"
    code += "assert not {'numba', 'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parents[1])


def test_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'StarCraft3Env'"):
        battles.StarCraft3Env  # noqa: B018


def test_a_configuration_of_numba_in_the_present_folder_changes_nothing(monkeypatch):
    settings = engine.settings
    before = {name: value for name, value in vars(settings).items() if name.isupper()}
    Path(".numba_config.yaml").write_text("disable_jit: 1\ncache_dir: here\nopt: '0'\n")
    monkeypatch.setattr(settings, "_config_fname", ".numba_config.yaml")
    settings.reload_config()  # as where Numba is imported
    assert settings.DISABLE_JIT
    importlib.reload(engine)
    settings.reload_config()  # as where Numba compiles
    assert {name: getattr(settings, name) for name in before} == before


CALLED = {
    env_step: ("advance_serial", "advance_parallel", "find_illegal", "write_frames"),
    smaclite: ("advance_serial", "advance_parallel"),
    reflection: ("command", "observe"),
    teams: ("recruit", "fit_all"),
}
"""The kernels that Python calls, as attributes of their modules."""


@pytest.mark.skipif(compile_cache.MAX_THREADS < 2, reason="one thread calls no parallel kernel")
def test_the_command_compiles_what_runs_call(monkeypatch):
    """Defect: the first run with an opponent compiled its side."""
    kernels = {}
    for module, names in CALLED.items():
        for name in names:
            kernels[module.__name__, name] = kernel = Mock(wraps=getattr(module, name))
            monkeypatch.setattr(module, name, kernel)
    battles.compile_engine()
    assert [name for name, kernel in kernels.items() if not kernel.called] == []


@pytest.mark.slow
def test_change_in_another_file_is_seen(tmp_path: Path) -> None:
    """A constant of world.py inside a kernel of episode.py: Numba alone would run the old code."""
    copy = tmp_path / "rltrain"
    shutil.copytree(PACKAGE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import numpy as np; from rltrain.battles.engine import compile_cache, episode; "
        "z = np.zeros((24, 2), np.float32); "
        "print(episode.compute_outcome(z, z, 1, False, False, 60, 1), compile_cache.cache_folder())"
    )

    def run() -> list[str]:
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-c", code]
        options = {"cwd": tmp_path, "env": environment, "text": True, "check": True}
        return subprocess.run(command, stdout=subprocess.PIPE, **options).stdout.split()

    draw, folder = run()
    assert draw == "3"
    assert Path(folder).is_relative_to(tmp_path / "cache" / "rltrain")
    helper = copy / "battles" / "engine" / "world.py"
    helper.write_text(helper.read_text().replace("    DRAW = 3\n", "    DRAW = 13\n"))
    draw, other_folder = run()
    assert draw == "13"
    assert other_folder != folder


def double(x):
    return x + x


DAMAGES = {
    "truncated": lambda data: data[:100],
    "empty": lambda data: b"",
    "garbage": lambda data: b"garbage\n" + data,
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["nbc", "nbi"])
def test_damaged_files_are_compiled_and_written_again(tmp_path, suffix, damage):
    """Defect: a truncated file ended every later command, until it was deleted by hand."""
    for given in (1, 0.5):
        assert compile_cache.compiled(double, tmp_path)(given) == 2 * given
    files = [*tmp_path.rglob(f"*.{suffix}")]
    assert files
    for file in files:
        file.write_bytes(DAMAGES[damage](file.read_bytes()))
    for hits in (0, 1):
        for given in (1, 0.5):
            again = compile_cache.compiled(double, tmp_path)
            assert again(given) == 2 * given
            assert sum(again.stats.cache_hits.values()) == hits


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path):
    """Defect: a full disk ended the run, without the name of the file."""
    made = [compile_cache.compiled(double, tmp_path / "rltrain" / name) for name in ("a", "b")]
    for each in made:
        place = Path(each.stats.cache_path)
        place.rmdir()
        place.touch()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert [each(x) for each in made for x in (1, 0.5)] == [2, 1, 2, 1]
    (one,) = shown
    assert f"cannot be kept in {tmp_path}/rltrain (File exists)" in str(one.message)
