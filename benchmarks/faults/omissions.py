"""Negative control of resumed runs: each item of a checkpoint's state in turn keeps its initial
value, and the comparison with the uninterrupted run must detect it.

It compares what the other faults compare: weights, replay, all other arrays, and metrics.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rltrain
from benchmarks.faults.runs import SMALL, result_of, warm_up, without_clocks
from benchmarks.faults.signals import note, on_call, run, sends
from rltrain.common import checkpoint
from rltrain.common.checkpoint import MODEL, REPLAY, TRAINER

CUTS = [
    ("rltrain.hardware.rollout:Rollout.collect", "SIGTERM", 0.6),
    ("rltrain.common.checkpoint:make_latest", "SIGKILL", 0.0),
]
"""The function at whose call, at this fraction of all its calls, a run gets a signal: in its
middle, and after its end, before the last checkpoint is pointed to.
"""
COMMON = ["test.interval=75", "save.interval=1000", "log.interval=25"]
CARTPOLE = [
    *(w for w in SMALL if not w.startswith(("env=", "buffer.", "algo.exploration."))),
    *("env=cartpole", "buffer.capacity=60", "algo.learning_starts=40", *COMMON),
]
GAME = [*(w for w in SMALL if w != "env=two_step"), "env=matrix", "env.length=7", *COMMON]
RUNS = {
    "qmix": ["algo=qmix", *GAME],
    "dqn": [
        *("algo=dqn", "algo.updates_per_env_step=0.3", "algo.target_update.env_steps=30"),
        "algo.target_update.updates=null",
        *CARTPOLE,
    ],
    "rainbow": ["algo=rainbow", *CARTPOLE],
    "r2d2": ["algo=r2d2", "buffer.sequence_length=4", "buffer.burn_in=2", *CARTPOLE],
}
Path_ = tuple[Any, ...]
MISSING = object()
UNUSED = {
    r"trainer\.usage\..*": "time and memory",
    r"trainer\.latest\..*": "replaced by the next row of metrics",
    r"trainer\.metrics\..*skipped_updates": "no update was skipped: a sum of zero",
    r"trainer\.callbacks\..*\.TrainLog": "train.log, whose lines have times, is not compared",
    r"trainer\.callbacks\..*\.saved_at": "without it, the same is saved once more",
    r"trainer\.callbacks\..*\.best\.0": "the win rate, where nobody wins",
    r"trainer\.callbacks\..*\.warned_of_support": "without it, a warning is shown once more",
    r"trainer\.rollout\.env\.infos\..*": "shown to callbacks, not used",
    r"replay\.open": "used where an environment is lost, whose open episode is dropped",
    r"model\.online\..*\.norm\..*": "the statistics of the target network are the same tensors",
}
"""Items that change no result, and why."""


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All items that differ from those of a new run, or so many of each run. An item is one case,
    in however many runs it is.
    """
    rng = random.Random(seed)
    warm_up(folder)
    seen: dict[str, list[str]] = {}
    for name, overrides in RUNS.items():
        words = [*overrides, f"seed={seed}"]
        whole, fresh = folder / f"{name}-whole", folder / f"{name}-new"
        calls = uninterrupted(words, whole)
        trainer = rltrain.make_trainer(words, run_dir=fresh)
        new = parts_of(trainer.save().parents[1])
        trainer.close()
        stopped, expected = [], results_of(whole)
        for n, (function, signal, fraction) in enumerate(CUTS):
            stopped.append(folder / f"{name}-{n}")
            sent = sends(signal, 1, int(fraction * calls[n]))
            run(words, stopped[n], partial(on_call, function, sent))
            assert noticed(stopped[n], folder / "copy", expected, ()) is None
        saved = [parts_of(each) for each in stopped]
        paths = [
            path
            for path in dict.fromkeys(path for each in saved for path in leaves(each))
            if not all(same(at(each, path), at(new, path)) for each in saved)
            and not any(re.fullmatch(pattern, item_of(path)) for pattern in UNUSED)
        ]
        for path in paths if n_cases is None else rng.sample(paths, n_cases):
            values = ((each, folder / "copy", expected, path, at(new, path)) for each in stopped)
            by = next((name for each in values if noticed(*each)), None)
            seen.setdefault(item_of(path), []).extend([by] if by else [])
    for item, by_runs in seen.items():
        yield item, None if by_runs else "not noticed"


def item_of(path: Path_) -> str:
    """The name of an item."""
    return ".".join(map(str, path))


def uninterrupted(words: Sequence[str], run_dir: Path) -> list[int]:
    """Carry out a run; returns how often the functions of CUTS were called."""
    files = [run_dir.with_suffix(f".{n}") for n in range(len(CUTS))]

    def watch() -> None:
        for (function, *_), file in zip(CUTS, files, strict=True):
            on_call(function, lambda n, file=file: note(file, str(n)))

    assert run(words, run_dir, watch) == 0
    return [len(file.read_text(encoding="utf-8").splitlines()) for file in files]


def results_of(run_dir: Path) -> dict[str, Any]:
    """What is compared: also the best weights, and the tests and the metrics that are shown."""
    best = (run_dir / "checkpoints/best").read_text(encoding="utf-8")
    record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    shown = without_clocks(parts_of(run_dir)[TRAINER]["latest"])
    tests = {name: record[name] for name in ("best_test", "final_test")}
    return {**result_of(run_dir), "best": best, "shown": shown, **tests}


def parts_of(run_dir: Path) -> dict[str, Any]:
    """The state in the latest checkpoint of a run, by part."""
    found = checkpoint.find(run_dir, full=True)
    return {part: checkpoint.read(found.folder, part) for part in (MODEL, TRAINER, REPLAY)}


def leaves(tree: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The paths of all items of a nested state."""
    inner = (
        tree.items()
        if isinstance(tree, Mapping)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    if not inner:
        yield path
    for key, value in inner:
        yield from leaves(value, (*path, key))


def at(tree: Any, path: Sequence[Any]) -> Any:
    """The item at a path; MISSING if there is none."""
    for key in path:
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return tree


def same(one: Any, other: Any) -> bool:
    """Whether two items are equal."""
    if isinstance(one, torch.Tensor | np.ndarray):
        equal_type = isinstance(other, torch.Tensor | np.ndarray)
        return equal_type and np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
    return one is not MISSING and type(one) is type(other) and one == other


def noticed(
    stopped: Path, copy: Path, expected: Mapping[str, str], path: Path_, value: Any = MISSING
) -> str | None:
    """What shows that an item was not restored when the copy of a run is resumed; or None."""
    shutil.copytree(stopped, copy)
    try:
        code = run([], copy, lambda: without(path, value) if path else None)
        if code != 0:
            return f"exit code {code}"
        found = results_of(copy)
        return ", ".join(k for k in expected | found if expected.get(k) != found.get(k)) or None
    finally:
        shutil.rmtree(copy)


def without(path: Path_, value: Any) -> None:
    """Let this process read a state whose item at ``path`` is ``value``, or is missing."""
    plain = checkpoint.read

    def read(folder: Path, part: str) -> dict[str, Any]:
        state = plain(folder, part)
        if part == path[0]:
            *above, key = path[1:]
            owner = at(state, above)
            if value is not MISSING:
                owner[key] = value
            elif at(owner, [key]) is not MISSING:
                del owner[key]
        return state

    checkpoint.read = read
