"""Copies in a run's folder: of opponents' weights, with their names, and of the files that its
environment reads.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from rltrain.common.files import expanded, replacing

FOLDER = "opponents"
"""The folder in a run's, for copies of their weights."""
KEPT_FILES = "files"
"""The folder in a run's, for the files that its environment reads."""
RESULTS = "self_play.json"
"""The file in a run's folder with wins, draws and losses of the agents: by the env steps of the
newest snapshot, then by those of the one that played.
"""
BUILTIN, SELF = "builtin", "self"
"""The opponent that is part of an environment, and past weights of the agents themselves."""
SCRIPTED = ("random", "stop", "closest", "focus", "heuristic", "kite", "spread", "alternate")
"""The scripted policies."""
NAMED = (BUILTIN, SELF, *SCRIPTED)
"""Names of opponents that no folder takes."""
PLAIN = ("checkpoints", "/", ".", "..", "~")
"""Parts of a path that do not distinguish runs."""
MOST_BYTES = 240
"""Bytes of a name; a folder with more has no room for what is put before it while it is written."""
POINTERS = ("best", "latest")


def is_checkpoint(opponent: str) -> bool:
    """Whether an opponent is named by the path of a checkpoint."""
    if opponent in NAMED:
        return False
    return "/" in opponent or opponent == "latest" or os.path.exists(expanded(opponent))


def opponent_name(opponent: str) -> str:
    """The name of an opponent in metrics and folders: of a checkpoint that of its run."""
    name = opponent
    if is_checkpoint(opponent):
        parts = [part for part in Path(opponent).parts if part not in PLAIN] or ["opponent"]
        step = len(parts) > 1 and (parts[-1].isdecimal() or parts[-1] in POINTERS)
        name = "-".join(parts[-2:]) if step else parts[-1]
    name = re.sub(r"[^\w.-]", "-", name)[-80:]
    return name.encode()[-MOST_BYTES:].decode(errors="ignore")


def played_in_tests(tested: str, training: Mapping[str, float], two_teams: bool) -> str:
    """``test.opponent``. In place of ``builtin``, which an environment of two teams has not, stands
    the most frequent one of ``training``, given with their weights, self-play first.
    """
    if tested != BUILTIN or not two_teams or not training or BUILTIN in training:
        return tested
    return SELF if SELF in training else max(training, key=training.__getitem__)


def kept_opponent(run_dir: Path, opponent: str) -> Path | None:
    """The copy of an opponent's weights in the folder of a run, if there is one."""
    copy = run_dir / FOLDER / opponent_name(opponent)
    if opponent in (BUILTIN, SELF) or copy.is_symlink() or copy.parent.is_symlink():
        return None
    return copy if (copy / "manifest.json").is_file() else None


def kept_file(run_dir: Path, key: str) -> Path | None:
    """A run's own copy of the file that a key names; None if there is none, or a link."""
    path = run_dir / KEPT_FILES / key
    linked = path.is_symlink() or path.parent.is_symlink()
    return path if path.is_file() and not linked else None


def keep_file(run_dir: Path, key: str, source: Path) -> None:
    """Copy the file that a key names into the folder of a run, unless it is that copy."""
    path = run_dir / KEPT_FILES / key
    if path.resolve() != source.resolve():
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as temporary:
            shutil.copyfile(source, temporary)
