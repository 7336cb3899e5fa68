"""mode=init: a small project that trains and tests an environment of one's own."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from rltrain.common.files import put_text, require_empty, require_writable
from rltrain.common.machine.install import install_command

PROJECTS = Path(__file__).parent / "project"
"""The files of each, by its environment's interface; their names have ``.txt`` behind them."""


def write_project(folder: Path, env: str) -> str:
    """Write the files into a new or an empty folder; returns what to type next.

    Args:
        env: ``gymnasium`` for one agent, ``pettingzoo`` for a team.

    Raises:
        UsageError: the folder holds files, or cannot be written.
    """
    require_empty(folder, "a project", "Type init.folder=FOLDER with a new name.")
    require_writable(folder, "init.folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((PROJECTS / env).iterdir()):
        text = path.read_text(encoding="utf-8").replace("{python}", sys.executable)
        put_text(folder / path.name.removesuffix(".txt"), text)
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    lines = [f"{folder.name}/ has {names}. To train, and to test what was learned:"]
    lines += [] if find_spec("pytest") else [f"  {install_command('pytest')}"]
    return "\n".join([*lines, f"  make -C {folder.name} train", f"  make -C {folder.name} test"])
