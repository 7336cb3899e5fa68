"""Test the lowest versions allowed by pyproject.toml in a separate environment: ``make lowest``.

PyTorch's version is that of constraints.txt: older ones lack wheels for some Python versions.
Downloads a gigabyte and compiles for some minutes.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-lowest"
SMALL = ["test.interval=200", "test.episodes=2", "hardware.threads=1"]
SMOKE = (
    ["mode=doctor"],
    ["env=cartpole", "total_env_steps=400", "algo.learning_starts=100", *SMALL],
    ["env=two_step", "total_env_steps=200", *SMALL],
    ["algo=qmix", "env=smac", "total_env_steps=400", *SMALL],
    ["mode=evaluate", "checkpoint=latest", "test.episodes=2"],
    ["mode=report", "runs=outputs"],
)
"""Commands that must work, in this order."""


def lowest() -> list[str]:
    """The lowest version of every dependency but PyTorch, as pip takes them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parsed = [re.match(r"([\w.-]+)>=([\w.]+)", each) for each in project["dependencies"]]
    return [f"{found[1]}=={found[2]}" for found in parsed if found and found[1] != "torch"]


def main() -> None:
    """Install, and run what has to work; fails with the first command that does."""
    python = str(FOLDER / "bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    torch = next(line for line in constraints if line.startswith("torch=="))
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    subprocess.run([*pip, torch, *lowest()], check=True)
    subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
    with tempfile.TemporaryDirectory() as folder:
        for command in SMOKE:
            print("rltrain", *command, flush=True)
            subprocess.run([python, "-m", "rltrain", *command], cwd=folder, check=True)


if __name__ == "__main__":
    main()
