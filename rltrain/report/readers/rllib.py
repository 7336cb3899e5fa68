"""Runs of RLlib, with or without Tune: ``result.json`` or ``progress.csv`` of a trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rltrain.common.files import JsonObject, json_object
from rltrain.common.json_text import flat, is_number, json_lines
from rltrain.report.readers.csv_tables import algo_in, csv_columns, env_in, header, seed_in
from rltrain.report.run_data import Run, distinguishing, is_value, renamed, to_columns

ALGOS = ("dqn", "apex", "qmix", "ppo", "impala", "appo", "sac", "dreamerv3", "r2d2", "simple_q")
NAMES = {
    "env_steps": ["num_env_steps_sampled_lifetime", "timesteps_total", "num_env_steps_sampled"],
    "seconds": ["time_total_s"],
    "updates": ["learners/default_policy/num_module_steps_trained_lifetime"],
    "episodes": ["env_runners/num_episodes_lifetime", "episodes_total"],
    "train/return_mean": ["env_runners/episode_return_mean", "episode_reward_mean"],
    "train/episode_length_mean": ["env_runners/episode_len_mean", "episode_len_mean"],
    "test/return_mean": [
        "evaluation/env_runners/episode_return_mean",
        "evaluation/episode_reward_mean",
        "evaluation/sampler_results/episode_reward_mean",
    ],
    "test/episode_length_mean": [
        "evaluation/env_runners/episode_len_mean",
        "evaluation/episode_len_mean",
    ],
}
READ = ("training_iteration", *(name for names in NAMES.values() for name in names))
NO_SETTINGS = ("seed", "env", "num_gpus", "num_gpus_", "log_level", "callbacks", "local_dir")


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none."""
    about: dict[str, Any] = {}
    problems: list[str] = []
    columns = to_columns(results(folder / "result.json", about, problems))
    config: Any = about.get("config")
    table = folder / "progress.csv"
    if not columns and table.name in files and "time_total_s" in header(table):
        columns, config = csv_columns(table, READ, problems), None
    if "training_iteration" not in columns or "time_total_s" not in columns:
        return None
    config = config if isinstance(config, dict) else json_object(folder / "params.json")
    seed = config.get("seed")
    return Run(
        folder=folder,
        library="RLlib",
        algo=algo_in(folder, ALGOS),
        env=str(config.get("env") or env_in(folder) or "unknown").rpartition(":")[2],
        seed=seed if isinstance(seed, int) else seed_in(folder),
        columns=renamed(columns, NAMES),
        settings={k: str(v) for k, v in distinguishing(config, NO_SETTINGS).items()},
        problems=problems,
    )


def results(path: Path, about: JsonObject, problems: list[str]) -> Iterator[JsonObject]:
    """The results of a trial, one at a time, without lines that cannot be read; the configuration
    of the last one is put into ``about``.
    """

    def read_result(row: JsonObject) -> JsonObject | None:
        about["config"] = row.pop("config", None)
        found = flat(row, "/")  # env_runners/episode_return_mean
        numbers = {name: found[name] for name in READ if name in found}
        placed = is_number(numbers.get("training_iteration"))
        return numbers if placed and all(map(is_value, numbers.values())) else None

    return json_lines(path, problems, read_result)
