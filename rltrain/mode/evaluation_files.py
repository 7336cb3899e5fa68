"""Where an evaluation is written: its folder, its file and that of its recordings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rltrain.common import checkpoint
from rltrain.common.files import drop_temporary, locked, new_folder, number_of, put_text
from rltrain.common.json_text import json_text
from rltrain.common.machine.places import ELSEWHERE, refused_writes
from rltrain.logger.screen import shown
from rltrain.mode.find_run import DEMOS
from rltrain.mode.hub import download
from rltrain.video.recorder import Recording


def home(source: checkpoint.Found | None) -> Path:
    """Where results of a checkpoint belong: its run's folder, its own if it is elsewhere, a new
    one if it was downloaded or came with rltrain, or if there is none.
    """
    if source is None or any(map(source.folder.is_relative_to, (download.cache(), DEMOS))):
        return new_folder("evaluate")
    run_dir = source.folder.parent.parent
    return run_dir if (run_dir / "run.json").exists() else source.folder


@cache
def elsewhere(place: Path) -> Path:
    """The new folder for whatever cannot be written to ``place``."""
    return new_folder("evaluate")


def made(wanted: Path) -> Path:
    """A new folder, with a number behind its name if there is one already."""
    folder = wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(2):
        try:
            folder.mkdir()
            break
        except FileExistsError:
            folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def recordings_folder(place: Path, step: int) -> Path:
    """A new folder for videos, ``recordings/<env_steps>``; elsewhere if that cannot be written."""
    try:
        if (place / "recordings").is_file():
            raise NotADirectoryError(place / "recordings")
        return made(place / "recordings" / str(step))
    except OSError:
        folder = elsewhere(place) / "recordings" / str(step)
        with refused_writes(folder, ELSEWHERE):
            return made(folder)


def recording_remarks(recorder: Recording) -> tuple[str, ...]:
    """Where the recordings are, if any was written, and what the recorder says of them."""
    place = f"The recordings are in {shown(recorder.folder)}."
    return (*([place] if any(recorder.files.values()) else []), *recorder.remarks)


def write(place: Path, record: Mapping[str, object]) -> Path:
    """``evaluation.json`` in a folder, earlier ones kept; elsewhere if that cannot be written.

    Raises:
        UsageError: that cannot be written either.
    """
    text = json_text(record)
    try:
        return put_newest(place, text)
    except OSError:
        with refused_writes(elsewhere(place), ELSEWHERE):
            return put_newest(elsewhere(place), text)


def put_newest(place: Path, text: str) -> Path:
    """Write ``evaluation.json``, after the one that is there was given a number."""
    path = place / "evaluation.json"
    place.mkdir(parents=True, exist_ok=True)
    with locked(place / ".evaluation.lock"):
        drop_temporary(place, path.name)
        if path.exists():
            paths = place.glob("evaluation-*.json")
            numbers = [number_of(p.stem.partition("-")[2]) or 0 for p in paths]
            path.rename(place / f"evaluation-{max(numbers, default=0) + 1}.json")
        put_text(path, text)
    return path
