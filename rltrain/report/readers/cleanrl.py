"""TensorBoard events of CleanRL, read with the package tensorboard."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

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
LARGE = {"scalars": 0, "tensors": 0, "images": 1, "histograms": 1, "audio": 1}
"""How many events of a kind are kept; 0 is all."""
NO_SETTINGS = ("exp_name", "seed", "env_id", "track", "wandb_", "capture_video", "cuda", "save_")


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none of CleanRL's."""
    if not any(name.startswith(EVENTS) for name in files):
        return None
    named = NAME.match(folder.name)
    if find_spec("tensorboard") is None and named is None:
        return None  # events of another program, for all that is known
    events = load(folder)
    scalars = [name for name in events.Tags()["scalars"] if name in NAMES]
    if not any(name.startswith("charts/") for name in scalars):
        return None
    points = [(NAMES[name], event) for name in scalars for event in events.Scalars(name)]
    began = min(event.wall_time for _, event in points)
    values: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, event in points:  # episodes that end at the same step have events of their own
        values[event.step][name].append(event.value)
        values[event.step]["seconds"].append(event.wall_time - began)
    settings = hyperparameters(events)
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
    )


def load(folder: Path) -> Any:
    """The events of a folder; UsageError if the package tensorboard is not installed."""
    with usage_errors():
        require_extra("report", "tensorboard", f"{folder} (TensorBoard events)")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance=LARGE)
    events.Reload()
    return events


def hyperparameters(events: Any) -> dict[str, str]:
    """CleanRL's table of hyperparameters, a text in Markdown."""
    tag = next((t for t in events.Tags()["tensors"] if t.startswith("hyperparameters")), None)
    if tag is None:
        return {}
    text = b" ".join(np.array(events.Tensors(tag)[0].tensor_proto.string_val)).decode("utf-8")
    cells = [line.strip("|").split("|") for line in text.splitlines()[2:]]
    return {row[0]: row[1] for row in cells if len(row) == 2}
