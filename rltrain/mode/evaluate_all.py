"""mode=evaluate load_step=all: every checkpoint of a run, as a table, a curve and one
``evaluation.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Column, Table

from rltrain.assemble.evaluation import build_evaluation
from rltrain.config.schema import Settings
from rltrain.errors import UsageError, usage_errors
from rltrain.hardware.device import set_allocator_policy
from rltrain.logger import curve
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.evaluate import Evaluation, home, open_checkpoint, played, return_texts, write
from rltrain.mode.find_run import find_checkpoints


@dataclass(frozen=True)
class Evaluations:
    """The checkpoints of a run, oldest first, and the files that hold them."""

    each: tuple[Evaluation, ...]
    path: Path
    curve: Path
    remarks: tuple[str, ...]


def evaluate_all(
    path: str | Path,
    overrides: Sequence[str],
    handed: Callable[[Settings], Settings] | None = None,
) -> Evaluations:
    """Play the same test episodes with the weights of every checkpoint of a run. UsageError if the
    path means one checkpoint.
    """
    set_allocator_policy()
    every = find_checkpoints(path)
    plays = handed is None
    opened = [open_checkpoint(source.folder, overrides, None, plays=plays) for source in every]
    if (dataset := opened[0][1].run.dataset.write) is not None:
        raise UsageError(
            f"dataset.write={dataset} records the episodes of one checkpoint: leave it out, or "
            "name one with load_step=N."
        )
    place, done = home(every[0]), []
    for source, saved in opened:
        settings = saved if handed is None else handed(saved)
        with usage_errors():
            rollout = build_evaluation(settings, source.folder)
        done.append(played(settings, rollout, source, place))
    common = ("what", "environment", "seed", "epsilon", "n_envs", "machine")
    record = {name: done[0].record[name] for name in common}
    record["checkpoints"] = [
        {name: value for name, value in one.record.items() if name not in common} for one in done
    ]
    file = write(place, record)
    rows = [{"env_steps": one.step, **one.metrics} for one in done]
    drawn = curve.save(file.with_name("evaluation_curve.png"), rows, done[0].record["what"])
    remarks = [*every[0].remarks, *(remark for one in done for remark in one.remarks)]
    return Evaluations(tuple(done), file, drawn, tuple(dict.fromkeys(remarks)))


def show_all(done: Evaluations) -> None:
    """The table a person reads, a row per checkpoint."""
    console, first = Screen(), done.each[0]
    console.lines(*done.remarks)
    wins = any("test/win_rate" in one.metrics for one in done.each)
    names = ("env steps", "return", "95% interval", *(["win rate"] if wins else []), "length")
    columns = (Column(name, justify="right") for name in names)
    table = Table(*columns, title=first.record["what"])
    for one in done.each:
        m = one.metrics
        row = [f"{one.step:,}", *return_texts(m)]
        row += [f"{m['test/win_rate']:.1%}" if "test/win_rate" in m else ""] if wins else []
        table.add_row(*row, f"{m['test/episode_length_mean']:.1f}")
    console.print(table)
    console.lines(
        f"{plural(len(done.each), 'checkpoint')}, {plural(len(first.episodes), 'episode')} each, "
        f"seed {first.record['seed']}; every episode is in {shown(done.path)}, the curve in "
        f"{shown(done.curve)}"
    )
