"""Small files, written atomically; untrusted files; checksums; locks; new
folders. Which of them can be written is in ``machine/places.py``.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path
from typing import Any

from rltrain.common.machine.streams import say
from rltrain.errors import CheckpointError, UsageError

JsonObject = dict[str, Any]
"""A JSON object: plain values by name, of any depth."""
JSON_BYTES = 1 << 24
"""A larger JSON file is not read, unless it says otherwise where it is read."""
DEEPEST = 100
"""Objects and lists within each other that a JSON file may have."""
MOST_ENTRIES = 1_000_000
"""Files and folders that a run, sweep or study may have."""
OWN_LINKS = re.compile(
    r"(.*/)?(outputs/latest|wandb/(latest-run|debug(-internal)?\.log|[^/]+/logs/debug-core\.log))"
)
"""Links that a run below a folder and wandb make, and replace without following them."""
PAGES = "recordings/*-[0-9]*.html"
"""Pages of recorded episodes, in a run's folder: ``battle-<n>.html`` or ``episodes-<n>.html``."""
TRIALS = "trials"
"""The folder in that of a search, with the runs of its trials."""
SHOWN = 3
"""Names that a message lists."""
PATIENCE = 1.0
"""Seconds for which a lock is waited for silently."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a temporary file next to ``path`` that takes its place at the end of the context,
    or is removed.

    Raises:
        OSError: it cannot be written, with ``path``.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


def put_text(path: Path, text: str) -> None:
    """Replace a small file atomically; errors as ``replacing``."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        sync(temporary)
    sync(path.parent)


def drop_temporary(folder: Path, *names: str) -> None:
    """Remove what processes left that were killed while they made a folder in this one, or replaced
    the files ``names``; for the only one that writes there.
    """
    for leftover in folder.glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for name in names:
        for leftover in folder.glob(f".{name}.*"):
            leftover.unlink(missing_ok=True)


def open_plain(path: Path, limit: int | None = None) -> BufferedReader:
    """Open an untrusted file without waiting for it.

    Args:
        limit: largest size, in bytes.

    Raises:
        OSError: it cannot be read, or is a folder, a pipe, a device or a socket.
        ValueError: it is too large.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(handle)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(f"{path.name} is a folder")
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(f"{path.name} is a pipe, a device or a socket")
        if limit is not None and facts.st_size > limit:
            raise ValueError(f"{path.name} is larger than {limit:,} bytes")
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def get_text(path: Path, limit: int) -> str:
    """An untrusted text file; errors as ``open_plain``."""
    with open_plain(path, limit) as file:
        return file.read(limit).decode("utf-8")


def get_json(path: Path, limit: int = JSON_BYTES) -> Any:
    """Read an untrusted JSON file.

    Args:
        limit: largest size, in bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not JSON, too large or nested too deep, or has one key twice.
    """
    return parsed(get_text(path, limit), object_pairs_hook=unique_keys)


def parsed(text: str, **options: Any) -> Any:
    """Untrusted JSON, with options of ``json.loads``.

    Raises:
        ValueError: it is not JSON, or nested too deep for what reads it.
    """
    problem = f"it is nested more than {DEEPEST} deep"
    try:
        value = json.loads(text, **options)
    except RecursionError as error:
        raise ValueError(problem) from error
    inner = [value]
    for _ in range(DEEPEST + 1):
        outer = [each for each in inner if isinstance(each, (dict, list))]
        if not outer:
            return value
        inner = [v for each in outer for v in (each.values() if isinstance(each, dict) else each)]
    raise ValueError(problem)


def json_object(path: Path) -> JsonObject:
    """A JSON object from a file; empty if there is none or it cannot be read."""
    try:
        content = get_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def unique_keys(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    """A JSON object. Of a key that occurs twice, readers would take one and checks the other."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(n for n in names if names.count(n) > 1):.80}' occurs twice")
    return mapping


def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """``os.walk`` of folders of any depth: Python 3.11 recurses there, up to about 1,000."""
    waiting = [str(root)]
    while waiting:
        for folder, inner, names in itertools.islice(os.walk(waiting.pop()), 1):
            yield folder, inner, names
            below = (os.path.join(folder, name) for name in reversed(inner))
            waiting += [path for path in below if not os.path.islink(path)]


def require_plain(folder: Path) -> None:
    """Refuse an untrusted folder with a link, a pipe, a device or a socket:
    what they lead to would be read or written.

    Raises:
        CheckpointError: names the first one, and where a link leads.
    """
    waiting, left = [str(folder)], MOST_ENTRIES
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        raise CheckpointError(f"{folder} has more than {MOST_ENTRIES:,} files.")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False):
                        refuse_special(folder, Path(entry.path))
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be read ({error.strerror}).") from error


def refuse_special(folder: Path, path: Path) -> None:
    """Refuse what is neither a file nor a folder, except ``OWN_LINKS``.

    Raises:
        CheckpointError: what to do instead.
    """
    if not path.is_symlink():
        raise CheckpointError(
            f"{path} is a pipe, a device or a socket, which is not read. Delete it."
        )
    if not OWN_LINKS.fullmatch(path.relative_to(folder).as_posix()):
        raise CheckpointError(
            f"{path} is a link to {os.readlink(path)}. Links inside a run folder are not followed: "
            "if it is yours, put what it leads to in its place; else delete it."
        )


def whole_number(name: str) -> int | None:
    """The whole number that a name is, or None."""
    return int(name) if re.fullmatch("[0-9]{1,18}", name) else None


def expanded(path: str | Path) -> Path:
    """A path with the home folder for a leading ``~``; ``~name`` of no user stays as it is."""
    return Path(os.path.expanduser(path))


def absolute_path(path: str | Path) -> Path:
    """The same, relative to the current folder of now."""
    return expanded(path).absolute()


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def next_number(folder: Path, stem: str, suffix: str) -> int:
    """The number ``<n>`` of a new file ``<stem>-<n><suffix>``: past the largest that is there, from
    1.
    """
    names = [path.stem.removeprefix(f"{stem}-") for path in folder.glob(f"{stem}-*{suffix}")]
    number = 1 + max((whole_number(name) or 0 for name in names), default=0)
    while os.path.lexists(folder / f"{stem}-{number}{suffix}"):  # one too long for whole_number
        number += 1
    return number


def newest(folder: Path, pattern: str) -> list[Path]:
    """The newest file of a pattern, relative to the folder; none if there is none. No link counts,
    nor what is behind one.
    """
    root = folder.resolve()
    plain = [path for path in root.glob(pattern) if path.is_file() and path.resolve() == path]
    path = max(plain, key=lambda path: path.stat().st_mtime, default=None)
    return [] if path is None else [path.relative_to(root)]


def take_lock(handle: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed. False if another process holds it; None where
    the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def locked(path: Path, busy: Callable[[str], object] | None = None) -> Iterator[int | None]:
    """Hold the lock of a folder, or of a file that is made if it is not there and names its holder,
    until this process and all that inherit the yielded descriptor have ended; where the file system
    has no locks, nothing is held and None yielded.

    Args:
        busy: called if another process holds it, with ``host pid`` or "", to refuse or to say so
            before it is waited for. By default a line says so after a second.
    """
    is_file = not path.is_dir()
    handle = os.open(path, os.O_RDWR | os.O_CREAT if is_file else os.O_RDONLY, 0o644)
    try:
        held = take_lock(handle)
        if held is False:
            holder = os.pread(handle, 300, 0).decode(errors="replace") if is_file else ""
            host, _, process = holder.partition(" ")
            known = f"process {process} on {host}" if process else "another process"
            line = f"Waiting for {known}, which holds {path}. Ctrl-C ends this."
            notice = threading.Timer(PATIENCE, say, [line])
            notice.start() if busy is None else busy(holder)
            try:
                take_lock(handle, wait=True)
            finally:
                notice.cancel()
        if held is not None and is_file:
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{platform.node()} {os.getpid()}".encode(), 0)
        yield None if held is None else handle
    finally:
        os.close(handle)


def dated(group: str, name: str | None = None) -> Path:
    """``outputs/<group>/<date>_<time>[-<name>]``, which may be there already."""
    named = "" if name is None else f"-{name}"
    return Path.cwd() / "outputs" / group / f"{datetime.now():%Y-%m-%d_%H-%M-%S}{named}"


def made(wanted: Path) -> Path:
    """Create a folder that no other command has, with a number behind its name if it is there."""
    folder = wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(2):
        try:
            folder.mkdir()
            break
        except FileExistsError:
            folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def require_empty(folder: Path, kind: str, advice: str, own: tuple[str, ...] = ()) -> None:
    """Refuse a folder that holds files of something else.

    Args:
        kind: what is to be written, as in "a run".
        advice: what to type instead.
        own: patterns (``fnmatch``) of names that are of this kind.

    Raises:
        UsageError: names files, or it is not a folder.
    """
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} already exists and is not a folder. {advice}")
    found = sorted(path.name for path in folder.iterdir())
    names = [name for name in found if not any(fnmatchcase(name, form) for form in own)]
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise UsageError(
            f"{folder} is not empty ({', '.join(names[:SHOWN])}{more}), and {kind} is not written "
            f"among other files. {advice}"
        )
