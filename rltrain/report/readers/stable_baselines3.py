"""Runs of Stable-Baselines3 and rl-zoo3: ``evaluations.npz``, ``progress.csv``, ``monitor.csv``."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import numpy as np

from rltrain.common.files import open_plain
from rltrain.common.json_text import METRICS_BYTES
from rltrain.errors import reason
from rltrain.report.readers.csv_tables import algo_in, csv_columns, env_in, header, name_in, seed_in
from rltrain.report.run_data import Run, possible, renamed

ALGOS = ("dqn", "qrdqn", "ppo_lstm", "ppo", "a2c", "sac", "td3", "ddpg", "tqc", "trpo", "ars")
NAMES = {
    "env_steps": ["time/total_timesteps"],
    "seconds": ["time/time_elapsed"],
    "updates": ["train/n_updates"],
    "episodes": ["time/episodes"],
    "train/return_mean": ["rollout/ep_rew_mean"],
    "train/episode_length_mean": ["rollout/ep_len_mean"],
    "train/win_rate": ["rollout/success_rate"],
    "train/epsilon": ["rollout/exploration_rate"],
    "test/return_mean": ["eval/mean_reward"],
    "test/episode_length_mean": ["eval/mean_ep_length"],
    "test/win_rate": ["eval/success_rate"],
    "learn/loss": ["train/loss"],
}
MONITOR = {"env_steps": ["l"], "seconds": ["t"], "train/return_mean": ["r"]}
LARGEST_ARRAY = 1 << 26  # bytes
TESTS, EPISODES = "evaluations.npz", 20
"""File of the evaluation callback; episodes of a monitor that one point is the mean of."""


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none."""
    monitors = sorted(name for name in files if name.endswith("monitor.csv"))
    monitors = [name for name in monitors if header(folder / name).startswith("#{")]
    table = "progress.csv" in files and "time/total_timesteps" in header(folder / "progress.csv")
    if not (table or monitors or TESTS in files):
        return None
    parts, problems = [], list[str]()
    if table:
        read = [name for names in NAMES.values() for name in names]
        parts.append(renamed(csv_columns(folder / "progress.csv", read, problems), NAMES))
    elif monitors:
        parts.append(episodes([folder / name for name in monitors], problems))
    if TESTS in files:
        try:
            parts.append(evaluations(folder / TESTS))
        except (OSError, EOFError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
            problems.append(f"{TESTS} cannot be read ({reason(error)})")
    algo = algo_in(folder, ALGOS)
    name = name_in(folder, algo)
    return Run(
        folder=folder,
        library="SB3",
        algo=algo,
        env=monitored_env([folder / name for name in monitors]) or env_in(folder) or "unknown",
        seed=seed_in(folder),
        columns=joined(parts),
        settings={"name": name} if name else {},
        problems=problems,
    )


def monitored_env(paths: list[Path]) -> str | None:
    """The environment id in the first line of a monitor."""
    for path in paths:
        try:
            env = json.loads(header(path).lstrip("#")).get("env_id")
        except (ValueError, AttributeError):
            continue
        if env and env != "None":
            return str(env)
    return None


def episodes(paths: list[Path], problems: list[str]) -> dict[str, np.ndarray]:
    """Training episodes of all environments in the order in which they ended, as means of 20."""
    tables = [csv_columns(path, "rlt", problems, 1, full=True) for path in paths]
    tables = [possible(renamed(table, MONITOR), problems) for table in tables if table]
    if not any(table["seconds"].size for table in tables):
        return {}
    length, t, r = (np.concatenate([table[name] for table in tables]) for name in MONITOR)
    order = np.argsort(t, kind="stable")
    steps = np.cumsum(length[order])
    ends = np.unique([*range(EPISODES, len(r) + 1, EPISODES), len(r)])
    parts = np.split(order, ends[:-1])
    return {
        "env_steps": steps[ends - 1],
        "seconds": t[order][ends - 1],
        "episodes": ends.astype(float),
        "train/return_mean": np.array([r[part].mean() for part in parts]),
        "train/episode_length_mean": np.array([length[part].mean() for part in parts]),
    }


@np.errstate(all="ignore")
def evaluations(path: Path) -> dict[str, np.ndarray]:
    """Tests of the evaluation callback; refused are pickled objects, and arrays that are larger
    than their files say, or than tests are.
    """
    with open_plain(path, METRICS_BYTES) as raw, np.load(raw, allow_pickle=False) as file:
        for about in file.zip.infolist():
            with file.zip.open(about) as member:
                np.lib.format.read_magic(member)
                shape, _, dtype = np.lib.format.read_array_header_1_0(member)
            if math.prod(shape) * dtype.itemsize > min(about.file_size, LARGEST_ARRAY):
                raise ValueError(f"{about.filename} is too large")
            if dtype.kind not in ("iu" if about.filename == "timesteps.npy" else "iufb"):
                raise ValueError(f"{about.filename} does not have numbers of its kind")
        steps, results = file["timesteps"], file["results"]
        out = {
            "env_steps": steps.astype(float),
            "test/return_mean": results.mean(1),
            "test/return_std": results.std(1),
            "test/episode_length_mean": file["ep_lengths"].mean(1),
        }
        if "successes" in file:
            out["test/win_rate"] = file["successes"].mean(1)
    return out


def joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The rows of several tables one below the other; metrics of the last one are its alone."""
    *others, last = [part for part in parts if part] or [{}]
    others = [{k: v for k, v in o.items() if k not in last or "/" not in k} for o in others]
    tables = [*others, last]
    names = dict.fromkeys(name for table in tables for name in table)
    sizes = [len(table.get("env_steps", ())) for table in tables]
    return {
        name: np.concatenate(
            [t.get(name, np.full(size, np.nan)) for t, size in zip(tables, sizes, strict=True)]
        )
        for name in names
    }
