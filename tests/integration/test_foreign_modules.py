"""Python files in the current folder are someone else's: no process of a command imports them.
test_sweep.py says so of jobs."""

import os
import subprocess
import sys

import pytest

from rltrain.common.imports import import_path
from tests.helpers import foreign_modules


@pytest.mark.parametrize("hardware", ["process", pytest.param("ray", marks=pytest.mark.slow)])
def test_no_process_of_a_command_imports_from_the_present_folder(tmp_path, small, hardware):
    if hardware != "process":
        pytest.importorskip(hardware)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    executed = foreign_modules(here)
    elsewhere.mkdir()
    script = elsewhere / "script.py"  # whose folder is on the path, as that of the command is
    script.write_text("from rltrain.__main__ import command\ncommand()\n")
    overrides = [f"hardware={hardware}", "hardware.n_workers=1", "total_env_steps=20"]
    result = subprocess.run(
        [sys.executable, str(script), *small, *overrides],
        cwd=here,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},
        check=False,
    )
    assert not executed.exists(), executed.read_text()
    assert result.returncode == 0, result.stderr


def test_a_present_folder_that_the_user_chose_stays(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert import_path() == {}
