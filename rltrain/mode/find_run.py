"""Find the run that a typed path refers to: a run, a checkpoint of it, ``latest``, a folder of
runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from shlex import quote
from typing import Any, Literal, ParamSpec, TypeVar

import rltrain
from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import FOLDER
from rltrain.common.checkpoint.run_checkpoints import MANIFEST
from rltrain.common.files import TRIALS, expanded, require_plain, walk
from rltrain.errors import CheckpointError, RemovedError, UsageError

P = ParamSpec("P")
T = TypeVar("T")
LATEST = "latest"
"""Stands for the newest run below ``outputs/``."""
DEMO, DEMOS = "demo/", Path(rltrain.__file__).resolve().parent / "demos"
"""How the name of a trained agent that comes with rltrain begins, and the folder of their runs,
which ``python -m benchmarks.demos`` makes.
"""

FOREIGN = re.compile(r".*\.(zip|pkl|pt|pth)")
"""Files of models that other libraries save."""


def runs_below(root: Path) -> list[Path]:
    """Run folders below ``root``, the one written last first, without the trials of a search below
    it; links are not followed.
    """
    runs = []
    for folder, inner, files in walk(root):
        if TRIALS in inner and Path(folder) != root:
            inner.remove(TRIALS)
        if "run.json" in (*files, *inner):
            runs.append(Path(folder))
            inner.clear()
    return sorted(runs, key=lambda run: (run / "run.json").lstat().st_mtime, reverse=True)


def run_home(path: Path) -> Path:
    """The folder of the run that a checkpoint or a folder of checkpoints lies in; else itself, or
    for the name of a pointer the folder of that.
    """
    run_dir = path.parent.parent if checkpoint.is_one(path) else path.parent
    inside = checkpoint.checkpoints_folder(path) == path
    if inside and os.path.lexists(run_dir / "run.json"):
        return run_dir
    return path if path.is_dir() else path.parent


def training_run(folder: Path) -> Path:
    """The folder of the run that wrote a checkpoint; the checkpoint's own if it lies elsewhere or
    is the copy of an opponent.
    """
    run_dir, copied = folder.parent.parent, folder.parent.name == FOLDER
    return run_dir if (run_dir / "run.json").exists() and not copied else folder


def find_run(typed: str | Path) -> Path:
    """The run folder that a typed path refers to; of several runs the newest.

    Raises:
        CheckpointError: there is none.
        UsageError: a checkpoint that no run continues from.
    """
    of_hub = str(typed).startswith("hf:")
    if of_hub or (path := typed_path(typed)).is_relative_to(DEMOS):
        whose = "a run on the Hub has" if of_hub else "agents that come with rltrain have"
        override = f"checkpoint={quote(str(typed))}{'' if of_hub else ' algo=… env=…'}"
        raise UsageError(
            f"{typed}: {whose} weights only and cannot be continued. Type {override} for a new run "
            "that starts from them."
        )
    if path.exists() and checkpoint.is_one(path) and not os.path.lexists(path / "run.json"):
        path = checkpoint_run(path)
    elif path.name == "checkpoints":
        path = path.parent
    runs = [path] if os.path.lexists(path / "config.json") else runs_below(path)
    if runs:
        require_plain(runs[0])
        return runs[0]
    raise CheckpointError(no_run(typed, path))


def checkpoint_run(path: Path) -> Path:
    """The run that continues from a checkpoint, its newest one.

    Raises:
        UsageError: it is an earlier one, or weights only; what to type instead.
    """
    checkpoints, pointer = path.parent, checkpoint.pointed(path.parent, path.name)
    chosen = path if pointer is None else checkpoints / str(pointer)
    newest = checkpoint.newest_full(checkpoints)
    if path.name == "latest" or chosen.name == str(newest):
        return checkpoints.parent
    override = f"checkpoint={quote(str(chosen))}"
    weights = f"{override} algo=… env=… for a new run that starts from these weights"
    if newest is None:
        raise UsageError(f"No run can be resumed from {path}. Type {weights}.")
    raise UsageError(
        f"{path}: a run is resumed from its newest checkpoint, which is {newest}. Type "
        f"resume={quote(str(checkpoints.parent))} for that, or {weights}."
    )


def chosen_again(use: Callable[P, T]) -> Callable[P, T]:
    """Decorator of what chooses a checkpoint and loads it: a training may remove it in between, in
    which case another one is chosen, at most twice.
    """

    @wraps(use)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(2):
            with suppress(RemovedError):
                return use(*args, **kwargs)
        return use(*args, **kwargs)

    @wraps(use)
    def begun_again(*args: Any, **kwargs: Any) -> Any:
        generators: Callable[..., Any] = use
        for _ in range(2):
            with suppress(RemovedError):
                return (yield from generators(*args, **kwargs))
        return (yield from generators(*args, **kwargs))

    return begun_again if isgeneratorfunction(use) else repeated


def to_its_end(begin: Callable[P, Generator[None, None, T]]) -> Callable[P, T]:
    """Decorator that turns a generator into a function with its result."""

    @wraps(begin)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        generator = begin(*args, **kwargs)
        while True:
            try:
                next(generator)
            except StopIteration as ended:
                result: T = ended.value
                return result

    return run


def find_checkpoint(
    typed: str | Path, load_step: int | Literal["best", "all"] | None = None
) -> checkpoint.Found:
    """The checkpoint that a typed path and a step refer to; of several runs that of the newest.

    Raises:
        CheckpointError: there is none, or it cannot be trusted.
        UsageError: a step together with a single checkpoint.
    """
    require_any(typed)
    path = typed_path(typed)
    has_any = has_checkpoint(path)
    if has_any or os.path.lexists(run_home(path) / "run.json"):
        require_plain(run_home(path))
    if has_any:
        return checkpoint.find(path, load_step)
    saved = [run for run in runs_below(path) if checkpoint.list_steps(run / "checkpoints")]
    if not saved:
        raise CheckpointError(f"No run in {path} has written a checkpoint yet.")
    require_plain(saved[0])
    newest = checkpoint.find(saved[0], load_step)
    which = f"The newest run below {path} with a checkpoint is {saved[0]}."
    return replace(newest, remarks=(which, *newest.remarks))


def require_any(typed: str | Path) -> None:
    """Refuse a path without a checkpoint or run at or below it; none is read, nor the Hub asked.

    Raises:
        CheckpointError: what there is instead.
    """
    if str(typed).startswith("hf:"):
        return
    path = typed_path(typed)
    if (path / "agent.th").is_file() or any(path.glob("*/agent.th")):
        raise CheckpointError(
            f"{typed} holds weights of PyMARL: expected a run of rltrain. Type rltrain mode=import "
            f"checkpoint={quote(str(typed))} algo=… env=…, then mode=evaluate checkpoint=latest."
        )
    if not (has_checkpoint(path) or runs_below(path)):
        raise CheckpointError(no_run(typed, path))


def has_checkpoint(path: Path) -> bool:
    """Whether a path is a checkpoint or a folder with one."""
    inside = checkpoint.checkpoints_folder(path)
    return checkpoint.is_one(path) or any(
        os.path.lexists(inside / str(step) / MANIFEST) for step in checkpoint.list_steps(inside)
    )


def find_checkpoints(typed: str | Path) -> list[checkpoint.Found]:
    """All checkpoints of a run, oldest first; the remarks are those of the first.

    Raises:
        CheckpointError: there is none, or none can be trusted.
        UsageError: the path refers to one checkpoint.
    """
    newest = find_checkpoint(typed)
    if checkpoint.is_one(typed_path(typed)):
        raise UsageError(
            f"load_step=all evaluates every checkpoint of a run, and {typed} is one. Leave out "
            "load_step, or give the run folder."
        )
    checkpoints, skipped = [], []
    for step in sorted(checkpoint.list_steps(newest.folder.parent)):
        try:
            if step <= newest.step:  # those after it are in its remarks
                checkpoints.append(checkpoint.single(newest.folder.with_name(str(step))))
        except CheckpointError as error:
            skipped.append(f"Skipped checkpoint {step}: {error}")
    if not checkpoints:
        raise RemovedError(skipped[-1])
    remarks = (*newest.remarks, *checkpoint.first_remarks(skipped))
    return [replace(checkpoints[0], remarks=remarks), *checkpoints[1:]]


def typed_path(typed: str | Path) -> Path:
    """An absolute path without links; ``latest`` is the folder of all runs, and ``demo/NAME`` an
    agent that comes with rltrain unless there is such a path. What an ``hf://`` address means is
    downloaded.
    """
    if str(typed).startswith("hf:"):
        from rltrain.mode.hub.download import download

        return download(str(typed))
    path = Path.cwd() / "outputs" if str(typed) == LATEST else expanded(typed)
    if str(typed).startswith(DEMO) and not path.exists():
        path = demo(str(typed))
    return Path(os.path.realpath(path))


def demo(typed: str) -> Path:
    """The run of a trained agent that comes with rltrain.

    Raises:
        CheckpointError: there is none of this name.
    """
    demos = {run.parent.name.lower(): run.parent for run in DEMOS.glob("*/run.json")}
    name = typed.removeprefix(DEMO).rstrip("/").lower()
    if name not in demos:
        listed = ", ".join(sorted(DEMO + folder.name for folder in demos.values()))
        raise CheckpointError(
            f"{typed}: no such path, and no trained agent of this name comes with rltrain. "
            f"Expected one of {listed}, or your own run (outputs/<algo>-<env>/<run>)."
        )
    return demos[name]


def no_run(typed: str | Path, path: Path) -> str:
    """The message where no run was found."""
    expected = "Expected latest, a run folder (outputs/<algo>-<env>/<run>), a folder of runs, or "
    missing = "no run below" if path.is_dir() else "nothing at"
    missing = "a file, which is not a run folder, at" if path.is_file() else missing
    missing = "no run but another library's model at" if FOREIGN.fullmatch(path.name) else missing
    return f"{typed}: there is {missing} {path}. {expected}checkpoints/<env_steps> in a run."
