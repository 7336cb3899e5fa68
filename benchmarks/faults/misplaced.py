"""Another object in place of each file of a run, and a wrong value for each key of its JSON files:
unreadable files are skipped or refused in a paragraph, without hanging or changing anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.faults.runs import SMALL, EmptyFigure
from rltrain.common import checkpoint
from rltrain.common.checkpoint.run_checkpoints import MANIFEST, put_manifest, seal
from rltrain.common.files import digest
from rltrain.errors import RltrainError
from rltrain.logger import curve
from rltrain.main import run

COMMANDS = (
    ("mode=evaluate", "checkpoint={run}", "test.episodes=1"),
    ("resume={run}", "total_env_steps=205"),
)
SECONDS = 60
"""Time limit of a command, on a loaded machine."""
SPARSE = 1 << 33
"""Bytes of a file that holds nothing; those that checksums are made of are smaller."""
WRONG: tuple[Any, ...] = (
    *(None, True, 7, -1, 10**18, 1e308, 0.5, "x", "1²", "\x1b[31m", [], [7], {}, {"a": 7}),
)
"""Values that are invalid for some key of a JSON file."""
LONGEST = 900
"""Characters of a paragraph."""
Change = Callable[[Path], object]


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """Every kind of file in the place of every file, with and without a checkpoint that vouches for
    it, and wrong values; ``n_cases`` are drawn.
    """
    curve.make_figure = lambda lines, title: EmptyFigure()
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert run([*SMALL, "hydra.run.dir=run"]) == 0
    rng = random.Random(seed)
    todo = [*files_of(folder / "run"), *values_of(folder / "run", rng)]
    if n_cases is not None:
        todo = rng.sample(todo, min(n_cases, len(todo)))
    for name, change in todo:
        for words in COMMANDS:
            copy = folder / "wrong"
            shutil.copytree(folder / "run", copy)
            change(copy)
            yield f"{name}: {words[0]}", answer([w.format(run=copy) for w in words], copy)
            shutil.rmtree(copy)


def answer(words: list[str], copy: Path) -> str | None:
    """What is wrong with how a command ends, or None."""
    before, output = digests_of(copy), io.StringIO()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("hangs")))
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = run(words)
    except RltrainError as error:
        text = str(error)
        if error.exit_code not in (2, 3):
            return f"exit code {error.exit_code}: {text:.300}"
        if len(text) > LONGEST or any(c < " " and c != "\n" for c in text):
            return f"no paragraph: {text!r:.300}"
        return None if digests_of(copy) == before else f"{text:.200}, but files were changed"
    except BaseException:
        return traceback.format_exc()[-900:]
    finally:
        signal.alarm(0)
    return None if code == 0 else f"exit code {code}: {output.getvalue()[-900:]}"


def digests_of(run_dir: Path) -> dict[str, str]:
    """The sums of all files but the log; those of huge ones are not made."""
    plain = [path for path in run_dir.rglob("*") if path.is_file() and not path.is_symlink()]
    kept = [p for p in plain if p.stat().st_size < 1 << 24 and p.name != "train.log"]
    return {str(path.relative_to(run_dir)): digest(path) for path in kept}


def files_of(run_dir: Path) -> Iterator[tuple[str, Change]]:
    """Each kind of file in the place of each file."""
    newest = str(checkpoint.list_steps(run_dir / "checkpoints")[0])
    for path in sorted(path for path in run_dir.rglob("*") if path.is_file()):
        name = path.relative_to(run_dir)
        inside = len(name.parts) == 3 and name.parts[0] == "checkpoints"
        if inside and name.parts[1] != newest:
            continue
        for kind, put in KINDS.items():
            yield f"{name} is {kind}", lambda r, n=name, put=put: replaced(r / n, put)
            if inside and name.name != MANIFEST and kind in SEALED:
                yield f"{name} is {kind} and listed", lambda r, n=name, put=put: sealed(r, n, put)


def replaced(path: Path, put: Change) -> None:
    """Put something else in the place of a file."""
    path.unlink()
    put(path)


def sealed(run_dir: Path, name: Path, put: Change) -> None:
    """The same in all checkpoints, whose manifests vouch for it."""
    for step in checkpoint.list_steps(run_dir / "checkpoints"):
        folder = run_dir / "checkpoints" / str(step)
        if (folder / name.name).exists():
            replaced(folder / name.name, put)
            with (folder / name.name).open("r+b") as file:
                file.truncate(min(file.seek(0, os.SEEK_END), SPARSE >> 4))
            seal(folder, "full")


def text(content: str | bytes) -> Change:
    """Write a file."""
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def sparse(path: Path) -> None:
    """A file of many bytes that takes no room."""
    path.touch()
    os.truncate(path, SPARSE)


KINDS: Mapping[str, Change] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "a link to a folder": lambda path: path.symlink_to("/etc"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("/nowhere"),
    "empty": Path.touch,
    "8 GB of zeros": sparse,
    "no UTF-8": text(b'{"a": "\xff\xfe\x80"}'),
    "random bytes": text(random.Random(0).randbytes(5_000)),
    "nested": text("[" * 200_000),
    "a list": text("[1, 2]"),
    "a number": text("7"),
    "null": text("null"),
    "a text": text('"\\u001b[31m\\ud800"'),
    "an empty object": text("{}"),
    "a long number": text("1" * 5_000),
}
"""By name, what makes it."""
SEALED = [name for name in KINDS if "link" not in name and name not in ("a pipe", "a folder")]
"""Those that a checkpoint can vouch for."""


def values_of(run_dir: Path, rng: random.Random) -> Iterator[tuple[str, Change]]:
    """Each wrong value for each key of each JSON file, and one for each key below; in checkpoints
    with a manifest that vouches.
    """
    newest = run_dir / "checkpoints" / str(checkpoint.list_steps(run_dir / "checkpoints")[0])
    files = [run_dir / "run.json", run_dir / "config.json", *sorted(newest.glob("*.json"))]
    for file in files:
        name = file.relative_to(run_dir)
        for path in paths(json.loads(file.read_text())):
            for value in WRONG if len(path) == 1 else [rng.choice(WRONG)]:
                where = f"{name} {'.'.join(path)}={value!a:.20}"
                yield where, lambda r, n=name, p=path, v=value: set_value(r, n, p, v)


def paths(tree: Any, depth: int = 3) -> Iterator[tuple[str, ...]]:
    """Every key, by its path; of lists nothing."""
    if isinstance(tree, dict) and depth:
        for key, value in tree.items():
            yield (key,)
            yield from ((key, *rest) for rest in paths(value, depth - 1))


def set_value(run_dir: Path, name: Path, path: tuple[str, ...], value: Any) -> None:
    """Set a value in a JSON file of the run, or in that of all checkpoints."""
    folders = [run_dir]
    if name.parts[0] == "checkpoints":
        steps = checkpoint.list_steps(run_dir / "checkpoints")
        folders = [run_dir / "checkpoints" / str(step) for step in steps]
    for folder in folders:
        file = folder / name.name
        if not file.exists():
            continue
        node = tree = json.loads(file.read_text())
        for key in path[:-1]:
            node = node.get(key, {})
        node[path[-1]] = value
        if name.name == MANIFEST:
            put_manifest(folder, tree)
            continue
        file.write_text(json.dumps(tree))
        if folder != run_dir:
            kind = json.loads((folder / MANIFEST).read_text())["kind"]
            seal(folder, kind)
