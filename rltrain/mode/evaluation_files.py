"""Where an evaluation is written: its folder, its file and that of its recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from rltrain.common import checkpoint
from rltrain.common.files import dated, drop_temporary, locked, made, next_number, put_text
from rltrain.common.json_text import json_text
from rltrain.common.machine.places import ELSEWHERE, refused_writes
from rltrain.errors import StorageError
from rltrain.logger.screen import shown
from rltrain.mode.find_run import DEMOS, training_run
from rltrain.mode.hub import download
from rltrain.video.recorder import Recording


def home(source: checkpoint.Found | None) -> Path | None:
    """Where results of a checkpoint belong: the folder of its ``training_run``; None for a
    ``results_folder`` if it was downloaded or came with rltrain, or if there is none.
    """
    if source is None or any(map(source.folder.is_relative_to, (download.cache(), DEMOS))):
        return None
    return training_run(source.folder)


def results_folder(group: str = "evaluate") -> Path:
    """A new folder for results, ``outputs/<group>/<date>_<time>``.

    Raises:
        UsageError: it cannot be created.
    """
    folder = dated(group)
    with refused_writes(folder, ELSEWHERE):
        return made(folder)


@cache
def elsewhere(place: Path) -> Path:
    """The new folder for whatever cannot be written to ``place``."""
    return results_folder()


def written(place: Path, write: Callable[[Path], Path]) -> Path:
    """What ``write`` writes into a folder, or elsewhere if that cannot be written."""
    try:
        return write(place)
    except OSError:
        with refused_writes(elsewhere(place), ELSEWHERE):
            return write(elsewhere(place))


def recordings_folder(place: Path, step: int | None = None) -> Path:
    """A new folder for videos, ``recordings/<env_steps>``, or that of pages, ``recordings``;
    elsewhere if that cannot be written.
    """

    def make(place: Path) -> Path:
        folder = place / "recordings"
        folder.mkdir(parents=True, exist_ok=True)
        if step is not None:
            return made(folder / str(step))
        with TemporaryFile(dir=folder):
            return folder

    return written(place, make)


def recording_remarks(recorder: Recording) -> tuple[str, ...]:
    """Where the recordings are, if any was written, and what the recorder says of them."""
    files = {path for paths in recorder.files.values() for path in paths}
    place = shown(files.copy().pop() if len(files) == 1 else recorder.folder)
    return (*([f"The recordings are in {place}."] if files else []), *recorder.remarks)


def unwritten(folder: Path) -> StorageError:
    """The error of recordings that were not all written."""
    return StorageError(f"{folder} cannot be written. Free disk space, then run the command again.")


def write(place: Path | None, record: Mapping[str, object]) -> Path:
    """``evaluation.json`` in a folder, earlier ones kept, or in a new one; elsewhere if that cannot
    be written.

    Raises:
        UsageError: that cannot be written either.
    """

    def put(place: Path) -> Path:
        path = place / "evaluation.json"
        place.mkdir(parents=True, exist_ok=True)
        with locked(place / ".evaluation.lock"):
            drop_temporary(place, path.name)
            if path.exists():
                path.rename(place / f"evaluation-{next_number(place, 'evaluation', '.json')}.json")
            put_text(path, json_text(record))
        return path

    return written(place or results_folder(), put)
