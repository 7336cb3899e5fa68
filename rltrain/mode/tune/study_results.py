"""The results of a study: the best trial as a preset, a table of trials, and figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from rltrain.common.files import put_text
from rltrain.config.command_line import shell_word
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import is_below, stacked
from rltrain.config.schema import RunSettings
from rltrain.config.show.configuration import deviations
from rltrain.errors import UsageError
from rltrain.logger.metric_files import csv_text, to_table
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.tune.space import OF_ALL_TRIALS
from rltrain.mode.tune.study import open_study, require_trials, trial_dir
from rltrain.mode.tune.trials import (
    StudySetup,
    metric_name,
    read_tests,
    require_unchanged,
    settings_text,
    trial_score,
)
from rltrain.report.figures import draw_history, draw_importance

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

SHOWN = 5
RESULTS = PRESET, TABLE, HISTORY, IMPORTANCE = (
    "best.yaml",
    "trials.csv",
    "history.png",
    "importance.png",
)
"""The files that are written."""


def write_results(job: StudySetup, screen: Screen) -> int:
    """Write and print the results; returns 1 if no trial has a score, else 0."""
    folder, run = job.folder, job.run
    require_trials(folder, run, job.space)
    study = open_study(folder, run)
    trials = study.get_trials(deepcopy=False)
    write_trials(folder, run, trials)
    completed = [t for t in trials if t.state.name == "COMPLETE"]
    scored = [(t.value, t) for t in completed if t.value is not None]
    if not scored:
        none = f"None of {plural(len(trials), 'trial')} has a score."
        screen.print(none if trials else "No trial has ended yet.")
        return int(bool(trials) and all(t.state.name == "FAIL" for t in trials))
    best = study.best_trial
    best_overrides = [f"{key}={value}" for key, value in best.params.items()]
    tests = read_tests(trial_dir(folder, best.number))  # of a folder that may have been deleted
    metric = metric_name(run.tune.metric, tests[-1]) if tests else run.tune.metric
    about = [
        f"Trial {best.number}, the best of {plural(len(trials), 'trial')}: {metric} {best.value:g},"
        f" mean of its last {plural(run.tune.last_tests, 'test')}, with seed {run.seed}."
    ]
    require_unchanged(job)
    seeds, others = "seed=range(100,105)", [o for o in job.overrides if not o.startswith("seed=")]
    try:
        put_text(folder / PRESET, preset_text([*job.overrides, *best_overrides], about))
        again = [f"experiment={shown(folder / PRESET)}", seeds]
    except UsageError as error:  # the algorithm or the environment is of the user's own files
        screen.lines(f"{PRESET} is not written: {error}")
        again = [*others, *best_overrides, seeds]
    history = [(t.number, score) for score, t in scored]
    draw_history(folder / HISTORY, history, run.tune.mode)
    importance = importances(study) if len(scored) > 3 else {}
    if importance:
        draw_importance(folder / IMPORTANCE, importance)
    screen.print(best_table(scored, run))
    screen.lines(
        f"Best: trial {best.number} with {best.value:g}. Confirm it on other seeds:",
        f"  {' '.join(map(shell_word, ['rltrain', '-m', *again]))}",
    )
    return 0


def importances(study: Study) -> dict[str, float]:
    """How much each key matters for the score (PED-ANOVA, Watanabe et al., 2023); empty where the
    trials do not show it.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    try:
        return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
    except (RuntimeError, ValueError):
        return {}


def best_table(scored: Sequence[tuple[float, FrozenTrial]], run: RunSettings) -> Table:
    """The best trials."""
    ordered = sorted(scored, key=itemgetter(0), reverse=run.tune.mode == "max")
    numbers = (Column(name, justify="right") for name in ("trial", "score"))
    settings = Column("settings", overflow="fold")
    table = Table(*numbers, settings, title="Best trials", title_justify="left", box=SIMPLE_HEAD)
    for score, t in ordered[:SHOWN]:
        table.add_row(str(t.number), f"{score:g}", settings_text(t.params))
    return table


def write_trials(folder: Path, run: RunSettings, trials: Sequence[FrozenTrial]) -> None:
    """Every trial with its state, score and values. Of one that was pruned Optuna keeps only the
    last test.
    """
    rows = []
    for t in trials:
        pruned = t.state.name == "PRUNED"
        score = trial_score(trial_dir(folder, t.number), run) if pruned else t.value
        error = t.user_attrs.get("error") if t.state.name == "FAIL" else None
        row = {"trial": t.number, "state": t.state.name.lower(), "score": score, "error": error}
        rows.append({**row, **t.params})
    put_text(folder / TABLE, csv_text(to_table(rows)))


def preset_text(overrides: Sequence[str], about: Sequence[str]) -> str:
    """A preset that composes to the same configuration as some overrides, with ``about`` as comment
    lines at its top.
    """
    composed = compose_checked(overrides)
    record = {"choices": composed.choices, **composed.plain}
    left_out = ("experiment", "tuned", "tune", "logger")
    choices, changed = deviations(record, ("algo", "env"), left_out, "tuned=none")
    values = stacked(
        reduce(lambda node, name: {name: node}, reversed(names), value)  # names may have dots
        for names, value in changed.items()
        if not is_below(".".join(names), OF_ALL_TRIALS)
    )
    defaults = [{f"override /{group}": name} for group, name in choices.items()]
    head = "\n".join(["# @package _global_", *(f"# {line}" for line in about)])
    tree = {"defaults": defaults, **values}
    return f"{head}\n{yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True)}"


def sequence(dumper: Any, values: list[object]) -> Any:
    """The node of a list, on one line unless there are mappings in it."""
    flow = not any(isinstance(value, dict) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=flow)


Dumper: Any = type("Dumper", (yaml.SafeDumper,), {})
Dumper.add_representer(list, sequence)
