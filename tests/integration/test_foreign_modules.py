"""Python files in the present folder are somebody else's: no process of a command imports them."""

import os
import subprocess
import sys

import pytest

from rltrain.common.imports import import_path

FOREIGN = ("rltrain/__init__.py", "numpy.py", "torch.py", "signal.py", "logging.py", "numba.py")
COMMANDS = {
    "sweep": ("-m", "seed=1,2"),
    "workers": ("hardware=process", "seed=1"),
    "one": ("seed=1",),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_process_of_a_command_imports_from_the_present_folder(command, tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in FOREIGN:
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write(__name__)")
    script = elsewhere / "script.py"  # whose folder is on the path, as that of the command is
    script.write_text("from rltrain.__main__ import command\ncommand()\n")
    overrides = ["env=cartpole", "total_env_steps=20", "hardware.kernels=torch", "logger=[]"]
    result = subprocess.run(
        [sys.executable, str(script), *COMMANDS[command], *overrides],
        cwd=here,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},
        check=False,
    )
    assert not (tmp_path / "executed").exists(), (tmp_path / "executed").read_text()
    assert result.returncode == 0, result.stderr


def test_a_present_folder_that_the_user_chose_stays(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert import_path() == {}
