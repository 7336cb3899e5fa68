"""Runs of rltrain: ``config.json``, ``metrics.jsonl`` and ``run.json`` of a run folder."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from rltrain.common.checkpoint.opponent_files import RESULTS
from rltrain.common.files import JsonObject, get_json, json_object, require_plain
from rltrain.common.json_text import flat, json_lines
from rltrain.common.metrics import METRICS, read_row
from rltrain.config.schema import scenario
from rltrain.report.ratings import battles
from rltrain.report.run_data import Run, distinguishing, number, possible, read_object, to_columns

SCENARIO = ("maps", "map_file", "map_name", "game", "maker", "id")
"""Keys of an environment that name what is played in it; the first one that is set counts."""
NO_SETTINGS = (
    *("mode", "name", "seed", "config", "load_step", "resume", "record", "trust", "runs"),
    *("test.interval", "test.episodes", "test.n_envs", "test.video_interval", "test.record"),
    *("dataset.write", "dataset.shard_bytes", "dataset.max_bytes"),
    *("save", "log", "report", "tune", "sweep", "logger"),
    *("buffer.folder", "buffer.storage", "hardware.threads", "hardware.kernels"),
    *(f"env.{key}" for key in SCENARIO),
)
"""Keys that do not distinguish configurations: they change no result, or are named otherwise."""
NO_CHOICES = ("logger", "hardware", "tuned", "tune", "hydra/")
"""Groups that do not, or whose keys do."""
REGISTERED = re.compile(r"-v\d+$")
"""The end of an id of Gymnasium, before which a module is only what to import."""


def read(folder: Path, files: set[str]) -> Run | None:
    """The run in a folder; None if there is none."""
    if not {"config.json", "run.json"} & files or not {"metrics.jsonl", "run.json"} & files:
        return None
    config = json_object(folder / "config.json")
    if not isinstance(config.get("choices"), dict):
        return None
    require_plain(folder)
    problems: list[str] = []
    columns = read_metrics(folder / "metrics.jsonl", problems)
    try:
        battles(folder / RESULTS)
    except (OSError, ValueError) as error:
        problems.append(f"{RESULTS} is left out ({error})")
    record = read_object(folder / "run.json", problems)
    if len(columns.get("env_steps", ())):
        names = sorted(fnmatch.filter(files, "evaluation*.json"), key=age, reverse=True)
        evaluations = (read_object(folder / name, problems) for name in names)
        columns |= absolute_metrics(evaluations, record, config, len(columns["env_steps"]))
    choices = {k: str(v) for k, v in config.pop("choices").items() if v not in (None, "none")}
    settings, own = distinguishing(config, NO_SETTINGS), flat(config).get("env.id")
    if isinstance(own, str) and ":" in own and not REGISTERED.search(own):
        settings["env.id"] = own  # of a class of one's own also the module distinguishes it
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
        status=" ".join(str(record.get("status", "unknown")).split())[:20],
        problems=problems,
    )


def require_none(folder: Path, files: set[str]) -> None:
    """Refuse the files of a run of which ``read`` could not take ``config.json``.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not the configuration of a run.
    """
    if "metrics.jsonl" in files and {"config.json", "run.json"} & files:
        config = get_json(folder / "config.json")
        if "run.json" in files or not isinstance(config, dict):
            raise ValueError("config.json has no choices of a run, such as {algo: dqn}")


def env_name(choice: str, env: Mapping[str, object]) -> str:
    """``CartPole-v1`` where Gymnasium or PettingZoo have a name for it, else ``smac 3m``."""
    if isinstance(env.get("id"), str):
        return str(env["id"]).rpartition(":")[2]
    return f"{choice} {Path(scenario(env, SCENARIO)).name}".rstrip()


def absolute_metrics(
    evaluations: Iterable[JsonObject],
    record: Mapping[str, object],
    config: Mapping[str, object],
    n: int,
) -> dict[str, np.ndarray]:
    """Columns ``absolute/NAME`` [n], whose last value is that of the best checkpoint in at least
    ten times the episodes of a test (Gorsane et al., 2022), by the first evaluation with the
    exploration of the tests in the run's own environment; none unless it was evaluated so.
    """
    keys = flat(config)
    best, episodes = record.get("best_test"), keys.get("test.episodes")
    if not isinstance(best, dict) or not isinstance(episodes, int):
        return {}

    for found in evaluations:
        played, metrics = found.get("episodes"), found.get("metrics")
        enough = isinstance(played, list) and len(played) >= 10 * episodes
        alike = found.get("epsilon") == keys.get("test.epsilon")
        alike = alike and found.get("env_steps") == best.get("env_steps")
        typed = found.get("overrides")
        alike = alike and isinstance(typed, list) and not any(map(changes_task, typed))
        if enough and alike and isinstance(metrics, dict):
            return {
                test.replace("test/", "absolute/"): np.append(
                    [np.nan] * (n - 1), number(metrics[test])
                )
                for test in METRICS
                if test.startswith("test/") and test in metrics
            }
    return {}


def age(name: str) -> tuple[bool, int, str]:
    """A key that sorts files of evaluations, oldest first."""
    return "-" not in name, len(name), name  # the newest has no number


def changes_task(override: object) -> bool:
    """Whether an evaluation with this override played something other than the run's tests."""
    return re.match(r"[+~]*((env|algo|test\.(opponent|env))\b|test=)", str(override)) is not None


def read_metrics(path: Path, problems: list[str]) -> dict[str, np.ndarray]:
    """The columns of a ``metrics.jsonl``. A half-written last line is left out; other lines that
    cannot be read are reported, as are rows that were written before the clock went back.
    """
    columns = to_columns(json_lines(path, problems, read_row))
    columns = possible(columns, problems)
    steps = columns.get("env_steps", np.zeros(0))
    if (back := np.flatnonzero(np.diff(steps) < 0)).size:
        problems.append(
            f"env_steps go back from {steps[back[-1]]:,.0f} to {steps[back[-1] + 1]:,.0f} in "
            "metrics.jsonl: only the rows after that are taken"
        )
        columns = {name: column[back[-1] + 1 :] for name, column in columns.items()}
    return columns
