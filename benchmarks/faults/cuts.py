"""kill -9 at every file change of a run: before it, and with the file half written. The run is
resumed, killed again at a random change, and resumed to its end: weights, replay and metrics equal
those of a run that was never killed, byte for byte, and no files are left over.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.faults.runs import SMALL, begin, last_lines, result_of, warm_up

SHORT = [*SMALL, "total_env_steps=100", "test.interval=75", "save.keep_last=2"]
RUN = ["logger=[csv,wandb]", *SHORT]
CHANGES = {"os.rename": 1, "os.mkdir": 0, "os.remove": 0, "os.rmdir": 0, "os.truncate": 0}
"""Audit events that change files, with the argument that names the file."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
HALF = b'{"env_steps": 1'


class Cut:
    """An audit hook that kills its process at a change of a file below a folder.

    Args:
        at: the number of the change, the first is 0; None only lists them.
        torn: leave the file half written, if it is to be written.
        listed: file that gets a line for each change.
    """

    def __init__(
        self, folder: Path, at: int | None, *, torn: bool = False, listed: Path | None = None
    ) -> None:
        self.folder, self.at, self.torn, self.listed = str(folder), at, torn, listed
        self.n, self.busy = 0, False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.busy or not (path := changed(event, arguments)).startswith(self.folder):
            return
        self.busy = True
        if self.listed is not None:
            with self.listed.open("a", encoding="utf-8") as file:
                file.write(f"{event} {Path(path).relative_to(self.folder)}\n")
        if self.n == self.at:
            self.act(path, arguments)
        self.n += 1
        self.busy = False

    def act(self, path: str, arguments: tuple[Any, ...]) -> None:
        """What happens at the change."""
        if self.torn:
            appends = arguments[2] & os.O_APPEND
            with open(path, "ab" if appends else "wb") as file:
                file.write(HALF)
        os.kill(os.getpid(), signal.SIGKILL)


def changed(event: str, arguments: tuple[Any, ...]) -> str:
    """The file that an audit event is about to change, or nothing."""
    if event == "open":
        writes = isinstance(arguments[0], (str, os.PathLike)) and (arguments[2] or 0) & WRITES
        return os.path.abspath(arguments[0]) if writes else ""
    if event not in CHANGES or not isinstance(arguments[CHANGES[event]], (str, os.PathLike)):
        return ""
    folder = arguments[-1] if event != "os.truncate" else -1
    inside = os.readlink(f"/proc/self/fd/{folder}") if folder >= 0 else os.getcwd()
    return os.path.join(inside, arguments[CHANGES[event]])


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """A cut at every change, or at so many of them."""
    rng = random.Random(seed)
    warm_up(folder)
    plain, listed = folder / "plain", folder / "changes.txt"
    whole = begin([*RUN, f"hydra.run.dir={plain}"], output(plain), Cut(plain, None, listed=listed))
    whole.join()
    assert whole.exitcode == 0, last_lines(output(plain))
    expected, names = result_of(plain), names_of(plain)
    changes = listed.read_text(encoding="utf-8").splitlines()
    cuts = [
        (at, torn)
        for at, change in enumerate(changes)
        for torn in ([False, True] if change.startswith("open ") else [False])
    ]
    chosen = cuts if n_cases is None else sorted(rng.sample(cuts, n_cases))
    for at, torn in chosen:
        run_dir = folder / "cut"
        again = rng.randrange(len(changes))
        problem = cut_run(run_dir, at, torn, again, expected)
        left = sorted(names_of(run_dir) - names)
        if problem is None and left:
            problem = f"left over: {left}"
        yield f"{'in' if torn else 'before'} {at}: {changes[at]}, again at {again}", problem
        shutil.rmtree(run_dir)
        output(run_dir).unlink()


def cut_run(run_dir: Path, at: int, torn: bool, again: int, expected: dict[str, str]) -> str | None:
    """What is wrong with a run that is cut at a change and, resumed, at another; or None."""
    for hook in (Cut(run_dir, at, torn=torn), Cut(run_dir, again), None):
        begun = (run_dir / "config.json").exists()
        words = [f"resume={run_dir}"] if begun else [*RUN, f"hydra.run.dir={run_dir}"]
        process = begin(words, output(run_dir), hook)
        process.join()
        if process.exitcode not in (0, -signal.SIGKILL):
            return f"exit code {process.exitcode}: {last_lines(output(run_dir))}"
    found = result_of(run_dir)
    differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
    return f"{differ} differ" if differ else None


def output(run_dir: Path) -> Path:
    """The file beside a run folder that gets what its commands print."""
    return run_dir.with_suffix(".txt")


def names_of(run_dir: Path) -> set[str]:
    """The files and folders of a run."""
    return {str(path.relative_to(run_dir)) for path in run_dir.rglob("*")}
