"""Runs of PyMARL and EPyMARL: the folders that Sacred's FileStorageObserver writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

import numpy as np

from rltrain.common.files import JsonObject, get_json, json_object
from rltrain.common.json_text import intact, is_number
from rltrain.report.run_data import Run, distinguishing, is_value, number, read_object, to_columns

NAMES = {"return": "return_mean", "ep_length": "episode_length_mean", "battle_won": "win_rate"}
LEARN = ("loss", "grad_norm", "td_error_abs", "q_taken_mean", "target_mean")
ENVS = {"sc2": "smac", "sc2v2": "smacv2", "sc2wrapped": "smacv2"}
"""Environments that have another name here."""
MOST_BYTES = 1 << 27
"""A larger file of metrics is not read; after 20 million steps one has 16 MiB."""
NO_SETTINGS = (
    *("seed", "env_args.seed", "env_args.map_name", "env_args.key", "label", "hypergroup"),
    *("checkpoint_path", "local_results_path", "save_", "use_cuda"),
    *("use_tensorboard", "use_wandb", "wandb_"),
    *("log_interval", "runner_log_interval", "learner_log_interval"),
)


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none."""
    if "config.json" not in files or not {"info.json", "metrics.json"} & files:
        return None
    config = get_json(folder / "config.json")
    if not isinstance(config, dict) or not {"env_args", "name"} <= config.keys():
        return None
    about = json_object(folder / "run.json")
    problems: list[str] = []
    series = measured(read_object(folder / "metrics.json", problems, MOST_BYTES), about, problems)
    info = {} if series else read_object(folder / "info.json", problems, MOST_BYTES)
    series = series or measured(as_metrics(info), {}, problems)
    series |= mean_returns(series)
    rows: dict[float, dict[str, float]] = {}
    for name, points in series.items():
        for step, seconds, value in points:
            row = rows.setdefault(step, {"env_steps": step, "seconds": seconds})
            row[our_name(name)] = value
    args = config["env_args"] if isinstance(config["env_args"], dict) else {}
    scenario = args.get("map_name") or args.get("key") or ""
    env = str(config.get("env", ""))
    name = f"{ENVS.get(env, env)} {scenario}" if env != "gymma" else str(scenario)
    seed = config.get("seed")
    return Run(
        folder=folder,
        library="PyMARL",
        algo=str(config["name"]),
        env=name.rpartition(":")[2].strip(),
        seed=seed if isinstance(seed, int) else None,
        columns=to_columns(rows[step] for step in sorted(rows)),
        settings=distinguishing(config, NO_SETTINGS),
        status={"RUNNING": "running", "FAILED": "failed", "INTERRUPTED": "interrupted"}.get(
            str(about.get("status")), "finished"
        ),
        problems=problems,
    )


def our_name(name: str) -> str:
    """``test_battle_won_mean`` is ``test/win_rate`` here."""
    if name in LEARN:
        return f"learn/{name}"
    group = "test" if name.startswith("test_") else "train"
    rest = name.removeprefix("test_")
    return f"{group}/{NAMES.get(rest.removesuffix('_mean'), rest)}"


Points = dict[str, list[tuple[float, float, float]]]
"""Env steps, seconds and value of every point, by metric."""


def measured(metrics: JsonObject, about: Mapping[str, object], problems: list[str]) -> Points:
    """``metrics.json``, which newer versions write: with times, of which others have NaN."""
    began = moment(about.get("start_time"))
    out: Points = {}
    for name, metric in metrics.items():
        if isinstance(metric, dict) and {"steps", "values"} <= metric.keys():
            times = metric.get("timestamps") or [None] * len(metric["steps"])
            seconds = [moment(t) - began for t in times]
            steps, values = (
                [x.get("value", "") if isinstance(x, dict) else x for x in metric[key]]
                for key in ("steps", "values")  # jsonpickle wraps numbers of NumPy
            )
            points = (
                (number(x), number(t), number(y)) if is_number(x) and is_value(y) else None
                for x, t, y in zip_longest(steps, seconds, values, fillvalue="")
            )
            out[name] = list(intact(enumerate(points, 1), f"values of {name:.80}", problems))
    return out


def as_metrics(info: JsonObject) -> JsonObject:
    """``info.json``, lists of values and their env steps under the name with ``_T``, in the form of
    ``metrics.json``.
    """
    return {
        name: {"steps": steps, "values": values}
        for name, values in info.items()
        if isinstance(values, list) and isinstance(steps := info.get(f"{name}_T"), list)
    }


def mean_returns(series: Points) -> Points:
    """Returns of EPyMARL with ``common_reward=False``, which writes one for every agent and their
    sum: here the return is their mean, as that of rltrain with ``env.reward=individual``.
    """
    out: Points = {}
    for group in ("", "test_"):
        own = re.compile(rf"{group}agent_\d+_return_mean")
        n_agents = len(list(filter(own.fullmatch, series)))
        total = series.get(f"{group}total_return_mean", [])
        if n_agents and f"{group}return_mean" not in series:
            out[f"{group}return_mean"] = [(x, t, value / n_agents) for x, t, value in total]
    return out


def moment(text: object) -> float:
    """Seconds since the epoch of a time as ISO 8601 writes it; NaN if it is not one."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return np.nan
