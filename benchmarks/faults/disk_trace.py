"""A command's file operations in a folder, traced with strace, and the possible states after a
power loss.

A power loss may undo every write to a file that was not synced since, and every change of a folder
(a name made, replaced or removed) that was not synced since: all of them, or any subset, as POSIX
permits. Renames are atomic.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "open,openat,creat,write,writev,pwrite64,pwritev,lseek,fsync,fdatasync,rename,renameat,"
    "renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,ftruncate"
)
LINE = re.compile(
    r"(?P<time>[\d.]+) (?P<call>\w+)\((?P<arguments>.*)\) = (?P<result>\d+)(?P<rest>.*)"
)
STRING = re.compile(r'"((?:\\x..)*)"')
HANDLE = re.compile(r"(\d+|AT_FDCWD)<((?:\\x..)*)>")
Entry = tuple[int, str, int | None]
"""A folder, a name in it, and what it names from now on (None: nothing)."""


@dataclass
class Change:
    """One change: of names, or of a file's data; ``synced`` is the number of the call that made it
    durable.
    """

    at: int
    entries: tuple[Entry, ...] = ()
    file: int | None = None
    offset: int = 0
    data: bytes | None = None  # None: the file is cut off at the offset
    synced: int | None = None


@dataclass
class Trace:
    """The changes below a folder, in their order; files and folders are numbers, it is 0."""

    root: Path
    changes: list[Change] = field(default_factory=list)
    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    sizes: dict[int, int] = field(default_factory=dict)
    n_calls: int = 0

    def find(self, path: str) -> tuple[int, str] | None:
        """The folder and the name of a path below the root."""
        if not path.startswith(f"{self.root}/"):
            return None
        *above, name = Path(path).relative_to(self.root).parts
        folder = 0
        for part in above:
            folder = self.folders[folder][part]
        return folder, name

    def name(self, *entries: Entry) -> None:
        """Change names, at once."""
        for folder, name, number in entries:
            if number is None:
                del self.folders[folder][name]
            else:
                self.folders[folder][name] = number
        self.changes.append(Change(self.n_calls, entries))

    def write(self, file: int, offset: int, data: bytes | None) -> None:
        """Change a file's data."""
        self.sizes[file] = offset if data is None else max(self.sizes[file], offset + len(data))
        self.changes.append(Change(self.n_calls, file=file, offset=offset, data=data))

    def sync(self, number: int) -> None:
        """Make the changes of a file or folder durable."""
        for change in self.changes:
            of_folder = number in [folder for folder, *_ in change.entries]
            if change.synced is None and (of_folder or change.file == number):
                change.synced = self.n_calls

    def new(self, is_folder: bool) -> int:
        """The number of a new file or folder."""
        number = len(self.sizes) + 1
        self.sizes[number] = 0
        if is_folder:
            self.folders[number] = {}
        return number


def trace(command: Sequence[str], folder: Path, logs: Path) -> Trace:
    """Carry out a command under strace; returns what it did below ``folder``."""
    logs.mkdir()
    strace = ["strace", "-ff", "-y", "-xx", "-ttt", "-s", str(1 << 24), "-e", f"trace={CALLS}"]
    subprocess.run([*strace, "-o", logs / "log", *command], check=True, capture_output=True)
    lines = []
    for log in logs.iterdir():
        for line in log.read_text(encoding="utf-8").splitlines():
            if found := LINE.fullmatch(line):
                lines.append((float(found["time"]), found))
    found = Trace(folder)
    handles: dict[str, tuple[int, int | None]] = {}
    for _, line in sorted(lines, key=lambda each: each[0]):
        replay(found, line, handles)
    return found


def text(hexadecimal: str) -> str:
    """A string as strace prints it with -xx."""
    return os.fsdecode(bytes.fromhex(hexadecimal.replace(r"\x", "")))


def replay(
    found: Trace,
    line: re.Match[str],
    handles: dict[str, tuple[int, int | None]],
) -> None:
    """Add a system call to a trace. ``handles``: file and position (None: the end) of each."""
    call, arguments = line["call"], line["arguments"]
    found.n_calls += 1
    strings = [match[1] for match in STRING.finditer(arguments)]
    folders = [text(path) for _, path in HANDLE.findall(arguments)]
    if call in ("write", "fsync", "fdatasync", "ftruncate", "lseek", "pwrite64"):
        handle = arguments.partition("<")[0]
        if not folders or not f"{folders[0]}/".startswith(f"{found.root}/"):
            return
        if call.startswith(("fs", "fd")):
            found.sync(0 if folders[0] == str(found.root) else handles[handle][0])
            return
        if handle not in handles:  # of a folder
            return
        file, position = handles[handle]
        if call == "write":
            data = bytes.fromhex(strings[0].replace(r"\x", ""))[: int(line["result"])]
            offset = found.sizes[file] if position is None else position
            found.write(file, offset, data)
            handles[handle] = (file, None if position is None else offset + len(data))
        elif call == "lseek":
            handles[handle] = (file, position if position is None else int(line["result"]))
        elif call == "ftruncate":
            found.write(file, int(arguments.rpartition(", ")[2]), None)
        else:
            raise NotImplementedError(call)
        return
    base = iter(folders)
    paths = [os.path.join(next(base, ""), text(each)) for each in strings]
    places = [found.find(path) for path in paths]
    if not places or None in places:
        return
    (folder, name), *others = [place for place in places if place is not None]
    there = found.folders[folder].get(name)
    if call in ("open", "openat", "creat"):
        if "O_TMPFILE" in arguments:
            return
        if there is None:
            there = found.new(is_folder=False)
            found.name((folder, name, there))
        elif "O_TRUNC" in arguments and found.sizes[there]:
            found.write(there, 0, None)
        handles[line["result"]] = (there, None if "O_APPEND" in arguments else 0)
    elif call.startswith("mkdir"):
        found.name((folder, name, found.new(is_folder=True)))
    elif call.startswith("rename"):
        ((other, new_name),) = others
        found.name((folder, name, None), (other, new_name, there))
    elif call.startswith(("unlink", "rmdir")):
        found.name((folder, name, None))
    elif call == "truncate":
        assert there is not None
        found.write(there, int(arguments.rpartition(", ")[2]), None)


def restore(found: Trace, at: int, folder: Path, keep: Callable[[Change], float]) -> None:
    """Make a folder as it may be after a power loss before call number ``at``.

    Args:
        keep: of a change that was not synced: what is left of it, 0 (nothing) to 1; of data a
            part.
    """
    names: dict[int, dict[str, int]] = {}
    contents: dict[int, bytearray] = {}
    for change in found.changes:
        if change.at >= at:
            break
        durable = change.synced is not None and change.synced < at
        share = 1.0 if durable else keep(change)
        if not share:
            continue
        for parent, name, number in change.entries:
            if number is None:
                names.setdefault(parent, {}).pop(name, None)
            else:
                names.setdefault(parent, {})[name] = number
        if change.file is not None:
            content = contents.setdefault(change.file, bytearray())
            if change.data is None:
                del content[change.offset :]
                continue
            data = change.data[: int(share * len(change.data))]
            content.extend(bytes(max(change.offset - len(content), 0)))
            content[change.offset : change.offset + len(data)] = data
    for path, number in paths_of(names, 0, folder):
        if number in found.folders:
            path.mkdir(parents=True)
        else:
            path.write_bytes(contents.get(number, b""))


def paths_of(names: dict[int, dict[str, int]], folder: int, at: Path) -> Iterator[tuple[Path, int]]:
    """All files and folders, folders first."""
    yield at, folder
    for name, number in names.get(folder, {}).items():
        yield from paths_of(names, number, at / name)
