"""Where files may be written: folders that cannot be, paths that are too long, the user's cache."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

from rltrain.common.files import get_text
from rltrain.errors import FolderError, UsageError, reason

MOST_SETTINGS = 1 << 20
"""Bytes of settings of Numba that are read."""
LONGEST_NAME, LONGEST_PATH = 255, 3_800
"""Bytes that a file system accepts; a path leaves room for the files below it."""
SWEEP, STUDY = "sweep.json", "study.json"
"""Files in the folder of a sweep, and of a search, whose trials only its own path reads."""


def require_places() -> None:
    """Refuse to start in a folder that was deleted. Where there is no cache folder of the user's
    that can be written, use one among the temporary files that only this user can write.

    Raises:
        UsageError: the current folder no longer exists, or has settings that Numba cannot read.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            "The folder that this command was typed in no longer exists. cd to an existing folder, "
            "then run the command again."
        ) from error
    require_numba_settings(Path(".numba_config.yaml"))
    cache = user_cache()
    with suppress(OSError):
        if cache.parts[0] != "~":  # as it is where this user has no home folder
            cache.mkdir(parents=True, exist_ok=True)
            if os.access(cache, os.W_OK):
                return
    with suppress(OSError):
        own = Path(gettempdir()) / f"rltrain-{os.getuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        facts = own.lstat()
        if facts.st_uid == os.getuid() and facts.st_mode == stat.S_IFDIR | 0o700:
            os.environ["XDG_CACHE_HOME"] = str(own)


def require_numba_settings(file: Path) -> None:
    """Refuse what Numba fails to read when it is imported.

    Raises:
        UsageError: the file is not YAML of settings by name.
    """
    if not file.exists():
        return
    import yaml

    try:
        found = yaml.safe_load(get_text(file, MOST_SETTINGS))
        fits = found is None or (isinstance(found, dict) and all(isinstance(k, str) for k in found))
        problem = "" if fits else f"got {found!r:.40}"
    except Exception as error:  # of any kind, since YAML takes the types that values name on trust
        problem = f"{reason(error).splitlines()[0]:.300}"
    if problem:
        raise UsageError(
            f"{file} in this folder, from which Numba reads its settings, cannot be read "
            f"({problem}): expected lines such as num_threads: 2. Correct it, or move it away."
        )


def user_cache() -> Path:
    """The folder in the user's cache folder where downloads and machine code are kept."""
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(folder) / "rltrain"


def enclosing(run_dir: Path) -> Path | None:
    """The folder of the sweep or search that a run is a part of."""
    files = (whole / file for whole in run_dir.parents for file in (SWEEP, STUDY))
    return next((file.parent for file in files if file.is_file()), None)


def unique_name(run_dir: Path) -> str:
    """The name of a run's folder. Sweeps and searches number their runs, so theirs comes first."""
    whole = enclosing(run_dir)
    return "-".join(run_dir.relative_to(whole.parent).parts) if whole else run_dir.name


def require_path(value: object, name: str) -> str:
    """The text of a path.

    Args:
        name: of the argument that has it.

    Raises:
        UsageError: no path, or one that no file system accepts.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(
            f"{name}={value!r}: expected a path (text, a pathlib.Path, or the result of a run), "
            f"got {type(value).__name__}."
        )
    require_possible(path := os.fsdecode(value), name)
    return path


def require_possible(typed: str | Path, key: str) -> None:
    """Refuse a path that no file system accepts, and an empty one, which would mean the folder that
    the command is typed in.

    Raises:
        UsageError: what is missing, too long or in its way.
    """
    path = Path(typed)
    if not str(typed):
        raise UsageError(f"{key}=: expected a path, got nothing. Type it, or leave it out.")
    if "\0" in str(typed):
        raise UsageError(f"{key}={typed}: expected a path, and no path has the character \0.")
    try:
        longest = max(path.parts, key=lambda name: len(os.fsencode(name)), default="")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{key}={str(typed)!a}: expected a path of characters that {error.encoding} has, as "
            "names of files need here. Choose another, or set PYTHONUTF8=1 before Python starts."
        ) from error
    if len(os.fsencode(longest)) > LONGEST_NAME:
        raise UsageError(
            f"{key}: the name {longest:.40}… has {len(os.fsencode(longest)):,} bytes, and a file "
            f"system accepts {LONGEST_NAME}. Choose a shorter one."
        )
    if len(os.fsencode(path.absolute())) > LONGEST_PATH:
        raise UsageError(
            f"{key}: the path {path!s:.40}… has more than {LONGEST_PATH:,} bytes. Choose a "
            "shorter one."
        )


_ROOM = "Start rltrain from a folder of your own with free disk space"
ELSEWHERE, OTHER_FOLDER = f"{_ROOM}.", f"{_ROOM}, or type {{}}=FOLDER."
"""Advice where a folder below the current one cannot be written; ``{}`` is its key."""


def require_writable(folder: Path, key: str = "hydra.run.dir", advice: str = OTHER_FOLDER) -> None:
    """Refuse a folder that cannot be created or written, without leaving anything behind.

    Args:
        key: what is typed for another folder.
        advice: what to do instead, with ``{}`` for the key.

    Raises:
        UsageError: what to do instead.
    """
    require_possible(folder, key)
    existing = folder
    while not os.path.lexists(existing):
        existing = existing.parent
    with refused_writes(folder, advice, key), TemporaryFile(dir=existing):
        pass  # it never has a name, so that nothing is left of a process that is killed here


@contextmanager
def refused_writes(
    folder: Path, advice: str = OTHER_FOLDER, key: str = "hydra.run.dir"
) -> Iterator[None]:
    """Refuse a folder in which a file cannot be created; arguments as those of
    ``require_writable``.

    Raises:
        FolderError: with ``advice``, what to do instead.
    """
    try:
        yield
    except OSError as error:
        raise FolderError(
            f"The folder {folder} cannot be written: {error.strerror or error}. "
            + advice.format(key)
        ) from error


def require_no_folders(folder: Path, *names: str) -> None:
    """UsageError for a folder in the place of one of the files that are to be written."""
    for name in names:
        if (folder / name).is_dir():
            raise UsageError(
                f"{folder / name} is a folder, in the place of a file that is to be written. Move "
                "it away, then type the command again."
            )
