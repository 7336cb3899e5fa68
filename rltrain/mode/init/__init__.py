"""mode=init: a small project that trains and tests a custom environment."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from rltrain.common.files import drop_temporary, put_text, require_empty
from rltrain.common.machine.install import install_command
from rltrain.common.machine.places import require_writable
from rltrain.logger.screen import shown

PROJECTS = Path(__file__).parent / "project"
"""The files of each, by its environment's interface; their names have ``.txt`` behind them."""


def write_project(folder: Path, env: str) -> str:
    """Write the files into a new or an empty folder, or into one that has only some of them, of a
    command that was killed; returns what to type next.

    Args:
        env: ``gymnasium`` for one agent, ``pettingzoo`` for a team.

    Raises:
        UsageError: the folder holds files, or cannot be written.
        OSError: the disk is full. After any exception nothing is left in the folder.
    """
    python = shlex.quote(sys.executable).replace("$", "$$").replace("#", r"\#")  # for make
    texts = {
        folder / path.name.removesuffix(".txt"): path.read_text("utf-8").replace("{python}", python)
        for path in sorted((PROJECTS / env).iterdir())
    }
    written = [
        p.name for p, text in texts.items() if p.is_file() and p.read_bytes() == text.encode()
    ]
    own = (*written, *(f".{path.name}.[0-9]*" for path in texts))
    require_empty(folder, "a project", "Type init.folder=FOLDER with a new name.", own)
    require_writable(folder, "init.folder")
    folder.mkdir(parents=True, exist_ok=True)
    drop_temporary(folder, *(path.name for path in texts))
    try:
        for path, text in texts.items():
            put_text(path, text)
    except BaseException:  # Ctrl-C, too
        for path in texts:
            path.unlink(missing_ok=True)
        raise
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    lines = [f"{shown(folder)}/ has {names}. To train, and to test what was learned:"]
    lines += [] if find_spec("pytest") else [f"  {install_command('pytest')}"]
    place = shlex.quote(shown(folder))
    return "\n".join([*lines, f"  make -C {place} train", f"  make -C {place} test"])
