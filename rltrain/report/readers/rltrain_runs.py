"""Runs of rltrain: ``config.json``, ``metrics.jsonl`` and ``run.json`` of a run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.common.files import json_object
from rltrain.report.run import Run, columns_of, flat

SCENARIO = ("map_name", "game", "maker", "id")
"""Keys of an environment that name what is played in it."""
NO_SETTINGS = (
    "mode",
    "seed",
    "test.interval",
    "test.episodes",
    "test.n_envs",
    "test.video_interval",
    "save.",
    "log.",
    "dataset.write",
    "dataset.shard_bytes",
    "dataset.max_bytes",
    "config",
    "load_step",
    "resume",
    "record",
    "trust",
    "runs",
    "report.",
    "tune.",
    "sweep.",
    "logger.",
    "hardware.threads",
    *(f"env.{key}" for key in SCENARIO),
)
"""Keys that do not tell configurations apart: they change no result, or are named otherwise."""
NO_CHOICES = ("logger", "hardware", "tuned", "tune", "hydra/")
"""Groups that do not, or whose keys do."""


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none."""
    if not {"config.json", "run.json"} & files or not {"metrics.jsonl", "run.json"} & files:
        return None
    config = json_object(folder / "config.json")
    if not isinstance(config.get("choices"), dict):
        return None
    problems: list[str] = []
    columns = columns_of(metric_rows(folder / "metrics.jsonl", problems))
    choices = {k: str(v) for k, v in config.pop("choices").items() if v not in (None, "none")}
    status = str(json_object(folder / "run.json").get("status", "unknown"))
    settings = {
        key: value for key, value in flat(config).items() if not key.startswith(NO_SETTINGS)
    }
    seed = config.get("seed")
    return Run(
        folder=folder,
        library="rltrain",
        algo=choices.pop("algo", "unknown"),
        env=env_name(choices.pop("env", "unknown"), config.get("env") or {}),
        seed=seed if isinstance(seed, int) else None,
        columns=columns,
        choices={k: v for k, v in choices.items() if not k.startswith(NO_CHOICES)},
        settings=settings,
        status=status,
        problems=problems,
    )


def env_name(choice: str, env: Mapping[str, Any]) -> str:
    """``CartPole-v1`` where Gymnasium or PettingZoo have a name for it, else ``smac 3m``."""
    if isinstance(env.get("id"), str):
        return str(env["id"]).rpartition(":")[2]
    scenario = [str(env[key]) for key in SCENARIO if env.get(key)]
    return " ".join([choice, *scenario])


def metric_rows(path: Path, problems: list[str]) -> list[dict[str, Any]]:
    """The lines of a ``metrics.jsonl``. A half-written last line is left out; other lines that
    cannot be read are reported, as are rows that were written before the clock went back.
    """
    rows: list[dict[str, Any]] = []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    broken = []
    for at, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows.append({"env_steps": float(row["env_steps"]), **row})
        except (ValueError, TypeError, KeyError):
            broken.append(at)
    if broken and broken != [len(lines)]:
        listed = ", ".join(map(str, broken[:5])) + (", …" if len(broken) > 5 else "")
        problems.append(f"lines of metrics.jsonl that cannot be read are left out: {listed}")
    steps = np.array([row["env_steps"] for row in rows])
    if (back := np.flatnonzero(np.diff(steps) < 0)).size:
        problems.append(
            f"env_steps go back from {steps[back[-1]]:,.0f} to {steps[back[-1] + 1]:,.0f} in "
            "metrics.jsonl: only the rows after that are taken"
        )
        rows = rows[back[-1] + 1 :]
    return rows
