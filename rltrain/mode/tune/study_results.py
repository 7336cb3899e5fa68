"""The results of a study: the best trial as a preset, a table of trials, and figures."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from rltrain.common.files import put_text
from rltrain.config.schema import RunSettings
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.tune.preset import preset_text
from rltrain.mode.tune.study import open_study, trial_dir
from rltrain.mode.tune.trials import metric_name, read_tests, settings_text
from rltrain.report.study_figures import draw_history, draw_importance

SHOWN = 5


def write_results(folder: Path, run: RunSettings, overrides: Sequence[str], screen: Screen) -> int:
    """Write and print the results; returns 1 if no trial came to a score, else 0."""
    study = open_study(folder, run)
    trials = study.get_trials(deepcopy=False)
    write_trials(folder / "trials.csv", trials)
    scored = [t for t in trials if t.value is not None and t.state.name == "COMPLETE"]
    if not scored:
        screen.print(f"None of {plural(len(trials), 'trial')} came to a score.")
        return int(bool(trials) and all(t.state.name == "FAIL" for t in trials))
    best = study.best_trial
    best_overrides = [f"{key}={value}" for key, value in best.params.items()]
    metric = metric_name(run.tune.metric, read_tests(trial_dir(folder, best.number))[-1])
    about = [
        f"Trial {best.number}, the best of {plural(len(trials), 'trial')}: {metric} {best.value:g},"
        f" mean of its last {plural(run.tune.last_tests, 'test')}, with seed {run.seed}."
    ]
    put_text(folder / "best.yaml", preset_text([*overrides, *best_overrides], about))
    history = [(t.number, float(t.value)) for t in scored]
    draw_history(folder / "history.png", history, run.tune.mode)
    importance = importances(study) if len(scored) > 3 else {}
    if importance:
        draw_importance(folder / "importance.png", importance)
    screen.print(best_table(scored, run))
    preset = shlex.quote(f"experiment={shown(folder / 'best.yaml')}")
    screen.print(
        f"Best: trial {best.number} with {best.value:g}. Confirm it on other seeds:\n"
        f"  rltrain -m {preset} 'seed=range(100,105)'",
        soft_wrap=True,
    )
    return 0


def importances(study: Any) -> dict[str, float]:
    """How much each key matters for the score (PED-ANOVA, Watanabe et al., 2023); empty where the
    trials do not tell.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    try:
        return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
    except (RuntimeError, ValueError):
        return {}


def best_table(scored: Sequence[Any], run: RunSettings) -> Table:
    """The best trials."""
    ordered = sorted(scored, key=lambda t: t.value, reverse=run.tune.mode == "max")
    table = Table(title="Best trials", title_justify="left", box=SIMPLE_HEAD)
    for column in ("trial", "score"):
        table.add_column(column, justify="right")
    table.add_column("settings", overflow="fold")
    for t in ordered[:SHOWN]:
        table.add_row(str(t.number), f"{t.value:g}", settings_text(t))
    return table


def write_trials(path: Path, trials: Sequence[Any]) -> None:
    """Every trial with its state, score and values."""
    keys = list(dict.fromkeys(key for t in trials for key in t.params))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["trial", "state", "score", "error", *keys])
        for t in trials:
            error = t.user_attrs.get("error", "")
            values = [t.params.get(key, "") for key in keys]
            writer.writerow([t.number, t.state.name.lower(), t.value, error, *values])
