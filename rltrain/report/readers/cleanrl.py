"""TensorBoard events of CleanRL, read with the package tensorboard."""

from __future__ import annotations

import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rltrain.common.files import open_plain
from rltrain.common.json_text import LONGEST, METRICS_BYTES, intact
from rltrain.common.machine.install import require_extra
from rltrain.errors import usage_errors
from rltrain.report.readers.csv_tables import algo_in, env_in, seed_in
from rltrain.report.run_data import Run, distinguishing, to_columns

EVENTS = "events.out.tfevents"
NAMES = {
    "charts/episodic_return": "train/return_mean",
    "charts/episodic_length": "train/episode_length_mean",
    "charts/epsilon": "train/epsilon",
    "eval/episodic_return": "test/return_mean",
    "eval/episodic_length": "test/episode_length_mean",
    "losses/td_loss": "learn/loss",
    "losses/q_values": "learn/q_taken_mean",
}
ALGOS = ("dqn", "c51", "rainbow", "ppo", "sac", "td3", "ddpg", "pqn", "qdagger")
NAME = re.compile(r"(?P<env>.+?)__(?P<algo>.+?)__(?P<seed>\d+)__(?P<time>\d+)$")
"""CleanRL's name of a run: ``CartPole-v1__dqn__1__1700000000``."""
RECORD_BYTES = 1 << 12
"""Of an event with a metric; the check sums of larger ones would take long."""
NO_SETTINGS = ("exp_name", "seed", "env_id", "track", "wandb_", "capture_video", "cuda", "save_")


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none of CleanRL's."""
    if not any(name.startswith(EVENTS) for name in files):
        return None
    named = NAME.match(folder.name)
    if find_spec("tensorboard") is None and named is None:
        return None  # events of another program, for all that is known
    problems: list[str] = []
    points: list[tuple[int, str, float, float]] = []
    settings: dict[str, str] = {}
    for event in load(folder, files, problems):
        if event.session_log.status == event.session_log.START:  # what follows replaces it
            points = [point for point in points if point[0] < event.step]
        for value in event.summary.value:
            if value.tag in NAMES and value.HasField("simple_value"):
                points.append((event.step, value.tag, value.simple_value, event.wall_time))
            elif value.tag.startswith("hyperparameters"):
                settings = settings or hyperparameters(value.tensor)
    if not any(tag.startswith("charts/") for _, tag, *_ in points):
        if problems:
            raise ValueError("; ".join(problems))
        return None
    began = min(moment for *_, moment in points)
    values: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for step, tag, value, moment in points:  # episodes that end at the same step have their own
        values[step][NAMES[tag]].append(value)
        values[step]["seconds"].append(moment - began)
    return Run(
        folder=folder,
        library="CleanRL",
        algo=named["algo"] if named else algo_in(folder, ALGOS),
        env=settings.get("env_id") or (named["env"] if named else env_in(folder) or "unknown"),
        seed=int(named["seed"]) if named else seed_in(folder),
        columns=to_columns(
            {"env_steps": float(step), **{name: float(np.mean(x)) for name, x in at.items()}}
            for step, at in sorted(values.items())
        ),
        settings=distinguishing(settings, NO_SETTINGS),
        problems=problems,
    )


def load(folder: Path, files: set[str], problems: list[str]) -> Iterator[Any]:
    """The events of a folder; UsageError if the package tensorboard is not installed."""
    with usage_errors():
        require_extra("report", "tensorboard", f"{folder} (TensorBoard events)")
    for name in sorted(name for name in files if name.startswith(EVENTS)):
        with open_plain(folder / name, METRICS_BYTES) as file:
            yield from intact(enumerate(records(file), 1), f"records of {name}", problems)


def records(file: BinaryIO) -> Iterator[Any]:
    """The events of a file, None for one that is damaged; a half-written last one is left out.

    Raises:
        ValueError: no more can be found, since a length is damaged.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    while len(head := file.read(12)) == 12:
        size, check = struct.unpack("<QI", head)
        if masked_crc32c(head[:8]) != check:
            raise ValueError(f"a record that ends at byte {file.tell():,} of its events is damaged")
        if size > LONGEST:
            file.seek(min(size, METRICS_BYTES) + 4, os.SEEK_CUR)
            yield None
            continue
        body, end = file.read(size), file.read(4)
        if len(end) < 4:
            return
        is_small = size <= RECORD_BYTES
        if is_small and struct.pack("<I", masked_crc32c(body)) != end:
            yield None
        else:
            event = Event.FromString(body)
            measured = any(value.HasField("simple_value") for value in event.summary.value)
            yield event if is_small or not measured else None


def hyperparameters(tensor: Any) -> dict[str, str]:
    """CleanRL's table of hyperparameters, a text in Markdown."""
    text = b" ".join(tensor.string_val).decode("utf-8")
    cells = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    return {row[0]: row[1] for row in cells if len(row) == 2}
