"""What a new process imports, and packages that are needed and need not be imported."""

import importlib.util
import subprocess
import sys

import pytest


def require_installed(name: str) -> None:
    """Skip a test without this package. MinAtar's imports libraries for plotting, which no test
    needs: a second each."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def imported(code: str, *names: str) -> list[str]:
    """Which of these modules a new process has imported once it has run the code."""
    code += f"\nimport sys; print(*[name for name in {names} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1].split()
