"""mode=evaluate: an exact number of episodes with the weights of one checkpoint, or of each of a
run, or with a policy that needs none; a table, and ``evaluation.json``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from rich.table import Column, Table

from rltrain.assemble.build_learner import load_mixer
from rltrain.assemble.evaluation import build_evaluation
from rltrain.callback.training import EvaluationRollouts
from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import BUILTIN, opponent_name
from rltrain.common.files import JsonObject
from rltrain.common.json_text import without_nan
from rltrain.common.metrics import student, summarize, wilson
from rltrain.common.seeding import SeedsOfTests
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings
from rltrain.config.validate.checker import check
from rltrain.errors import CheckpointError, RemovedError, StorageError, UsageError, usage_errors
from rltrain.hardware.device import machine
from rltrain.hardware.rollout import Rollout
from rltrain.logger import curve
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode import evaluation_files
from rltrain.mode.find_opponents import with_opponents
from rltrain.mode.find_run import find_checkpoint, find_checkpoints
from rltrain.mode.messages.warnings import remarks_on_tests
from rltrain.types import Clock, Episode
from rltrain.video.episode_recorder import EpisodeRecorder, require_drawing
from rltrain.video.recorder import Recording, make_recorder, require_drawable

CURVE = "evaluation_curve.png"


@dataclass(frozen=True)
class Evaluation:
    """Test episodes of one checkpoint. ``metrics`` are named like those of a test; ``place`` is the
    folder of its recordings or of its run, if it has one, and ``path`` its file.
    """

    step: int
    episodes: tuple[Episode, ...]
    metrics: Mapping[str, float]
    record: JsonObject
    place: Path | None
    remarks: tuple[str, ...] = ()
    complete: bool = True  # every recording was written
    path: Path = Path()


def open_checkpoint(
    path: str | Path,
    overrides: Sequence[str],
    load_step: int | Literal["best"] | None,
    *,
    plays: bool,
) -> tuple[checkpoint.Found, Settings]:
    """A checkpoint and its settings, with the typed overrides applied.

    Args:
        plays: its environment will be built; otherwise it need not be trusted.

    Raises:
        CheckpointError: nothing trustworthy there.
        UsageError: overrides that name no key of the saved configuration.
    """
    source = find_checkpoint(path, load_step)
    return source, settings_of(source, overrides, plays=plays)


def settings_of(source: checkpoint.Found, overrides: Sequence[str], *, plays: bool) -> Settings:
    """The settings of a checkpoint that was found; arguments and errors as ``open_checkpoint``."""
    file = source.folder / "config.json"
    with checkpoint.unless_removed(source.folder):
        tree, choices, changed = load_config(file, overrides, learns=False, env=plays)
    tree["mode"] = "evaluate"
    settings = replace(check(tree, choices, {}, overrides), typed=frozenset(changed))
    settings = with_opponents(settings, evaluation_files.home(source)) if plays else settings
    if settings.algo is None:
        raise CheckpointError(f"{source.folder} has a policy without weights: nothing to load.")
    return settings


def evaluate(
    path: str | Path,
    overrides: Sequence[str],
    load_step: int | Literal["best"] | None,
    handed: Callable[[Settings], Settings] | None = None,
) -> Evaluation:
    """Play the episodes and write ``evaluation.json``; ``handed`` puts an environment that was
    passed from Python in place of the named one.
    """
    source, saved = open_checkpoint(path, overrides, load_step, plays=handed is None)
    settings = saved if handed is None else handed(saved)
    of_run, maker = (each.nodes["env"].kwargs.get("maker") for each in (saved, settings))
    other_env = [] if maker == of_run else [f"env.maker={maker}"]
    return evaluated(settings, source, [*overrides, *other_env])


def evaluate_all(
    path: str | Path, overrides: Sequence[str], handed: Callable[[Settings], Settings] | None = None
) -> list[Evaluation]:
    """Play the same test episodes with the weights of every checkpoint of a run, oldest first, all
    of them in one file. UsageError if the path refers to one checkpoint.
    """
    every = find_checkpoints(path)
    plays = handed is None
    opened = [settings_of(source, overrides, plays=plays) for source in every]
    if (dataset := opened[0].run.dataset.write) is not None:
        raise UsageError(
            f"dataset.write={dataset} records the episodes of one checkpoint: leave it out, or "
            "name one with load_step=N."
        )
    place, done, removed = evaluation_files.home(every[0]), [], []
    for source, own in zip(every, opened, strict=True):
        try:
            done.append(played(handed(own) if handed else own, source, place))
            place = done[-1].place
        except RemovedError as error:  # the others are kept
            removed += [*source.remarks, f"Skipped checkpoint {source.step}: {error}"]
    if not done:
        raise RemovedError(removed[-1])
    done[-1] = replace(done[-1], remarks=(*done[-1].remarks, *removed))
    common = ("what", "environment", "seed", "seeds", "epsilon", "n_envs", "machine")
    record = {name: done[0].record[name] for name in common} | {"overrides": [*overrides]}
    record["checkpoints"] = [
        {name: value for name, value in one.record.items() if name not in common} for one in done
    ]
    rows = [{"env_steps": one.step, **one.metrics} for one in done]
    with printing_what_is_lost(lambda: print_checkpoints(done)):
        file = evaluation_files.write(place, record)
        curve.save(file.with_name(CURVE), rows, done[0].record["what"])
        require_recordings(done)
    return [replace(one, path=file) for one in done]


def evaluated(
    settings: Settings, source: checkpoint.Found | None, overrides: Sequence[str] = ()
) -> Evaluation:
    """Play with a checkpoint or the scripted policy of ``algo``, count and write."""
    evaluation = played(settings, source, evaluation_files.home(source))
    record = {**evaluation.record, "overrides": [*overrides]}
    with printing_what_is_lost(lambda: print_episodes(evaluation)):
        file = evaluation_files.write(evaluation.place, record)
        require_recordings([evaluation])
    return replace(evaluation, record=record, path=file)


def require_recordings(done: Sequence[Evaluation]) -> None:
    """StorageError unless every recording was written."""
    for one in done:
        if one.place is not None and not one.complete:
            raise evaluation_files.unwritten(one.place / "recordings")


@contextmanager
def printing_what_is_lost(table: Callable[[], object]) -> Iterator[None]:
    """Context that prints results which cannot be written."""
    try:
        yield
    except (UsageError, StorageError, OSError, KeyboardInterrupt):
        table()
        raise


def build(settings: Settings, source: checkpoint.Found | None) -> EvaluationRollouts:
    """The rollout of an evaluation, with what its parts refuse put as a usage error."""
    with usage_errors():
        return build_evaluation(settings, None if source is None else source.folder)


def played(settings: Settings, source: checkpoint.Found | None, place: Path | None) -> Evaluation:
    """Play and count; with ``record``, write videos into ``place``, or a new folder."""
    rollout = build(settings, source)
    recorded, step = settings.run.record, source.step if source else 0
    recorder: Recording | None = None
    try:
        if recorded == "html":
            name, instead = settings.choices["env"], "record=video for videos"
            require_drawing(rollout.env, name, "record=html", instead)
            place = place or evaluation_files.results_folder()
            recorder = episode_recorder(settings, cast(Rollout, rollout), source, place)
        elif recorded:
            require_drawable(rollout.env, settings.choices["env"])
            place = place or evaluation_files.results_folder()
            folder = evaluation_files.recordings_folder(place, step)
            recorder = make_recorder(rollout.env, folder, settings.run.test.episodes)
        began, watches = time.monotonic(), [] if recorder is None else [recorder]
        n, seed = settings.run.test.episodes, settings.run.seed
        episodes = tuple(rollout.run_episodes(n, seed, Clock(), watches))
    finally:
        rollout.close()
    metrics = summary(episodes)
    two_sided = settings.opponents is not None or settings.is_two_sided(training=False)
    tested = settings.run.test.opponent
    opponent = {"opponent": opponent_name(tested)} if two_sided else {}
    if tested in settings.opponent_folders:
        opponent["opponent_checkpoint"] = str(settings.opponent_folders[tested])
    seed_of = SeedsOfTests(settings.run.seed, n_envs=1)
    record: JsonObject = {
        "checkpoint": str(source.folder) if source else None,
        "env_steps": step,
        "what": settings.title,
        "environment": dict(rollout.env.about),  # a dataset may have ended
        **opponent,
        "seed": settings.run.seed,
        "seeds": [seed_of(0, i) for i in range(len(episodes))],
        "epsilon": settings.run.test.epsilon,
        "n_envs": min(settings.run.test.n_envs, settings.run.test.episodes),
        "seconds": round(time.monotonic() - began, 3),
        "machine": machine(),
        "metrics": metrics,
        "episodes": [
            {"episode": i, "return": e.episode_return, "length": e.length, **plain_info(e)}
            for i, e in enumerate(episodes)
        ],
    }
    remarks = remarks_on_tests(settings, source, rollout)
    if recorder is not None:
        for row in record["episodes"]:
            files = recorder.files[row["episode"]]
            row["files"] = [str(f).removeprefix(f"{place}/") for f in files]
        remarks += evaluation_files.recording_remarks(recorder)
    complete = recorder is None or not recorder.disk.degraded
    return Evaluation(step, episodes, metrics, record, place, remarks, complete)


def episode_recorder(
    settings: Settings, rollout: Rollout, source: checkpoint.Found | None, place: Path
) -> EpisodeRecorder:
    """A recorder for the page of an evaluation, with the mixer of its checkpoint."""
    title, mixer, remarks = settings.title, None, []
    if source is not None:
        title = f"{title}, checkpoint {source.step:,}"
        try:
            mixer = load_mixer(settings, rollout.env.spec, torch.device("cpu"), source.folder)
        except ValueError:
            remarks.append("The page has no values of the team: the mixer is a custom class.")
    folder, n = evaluation_files.recordings_folder(place), settings.run.test.episodes
    return EpisodeRecorder(folder, n, title, rollout.policy, mixer, remarks=remarks)


def plain_info(episode: Episode) -> JsonObject:
    """An episode's ``info`` as JSON, which has no NaN and no infinity: null."""
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in episode.info.items()}
    return dict(without_nan(plain))


def summary(episodes: Sequence[Episode]) -> dict[str, float]:
    """The metrics of a test, with the standard error of returns and 95% intervals of returns
    (Student's t) and wins (Wilson, 1927).
    """
    out, n = summarize(list(episodes)), len(episodes)
    if n > 1:
        mean = out["test/return_mean"]
        out["test/return_standard_error"], half = student(out["test/return_std"], n)
        out |= {"test/return_low": mean - half, "test/return_high": mean + half}
    if wins := [bool(e.info["win"]) for e in episodes if "win" in e.info]:
        low, high = wilson(sum(wins), len(wins))
        out |= {"test/win_rate_low": low, "test/win_rate_high": high}
    return {k: v for k, v in out.items() if not math.isnan(v)}


def show(evaluation: Evaluation) -> None:
    """The table for the terminal, and where every episode is."""
    console = print_episodes(evaluation)
    about = "".join(f"{name} {fact}, " for name, fact in evaluation.record["environment"].items())
    console.lines(
        f"{plural(len(evaluation.episodes), 'episode')}, {about}seed {evaluation.record['seed']}, "
        f"{evaluation.record['seconds']:.1f} s; every episode is in {shown(evaluation.path)}"
    )


def print_episodes(evaluation: Evaluation) -> Screen:
    """Print the remarks on an evaluation and its table."""
    console = Screen()
    console.lines(*evaluation.remarks)
    m = evaluation.metrics
    source = f", checkpoint {evaluation.step:,}" if evaluation.record["checkpoint"] else ""
    columns = (Column(name, justify="right") for name in ("mean", "95% interval"))
    opponent = evaluation.record.get("opponent", BUILTIN)
    played = "" if opponent == BUILTIN else f" against {opponent}"
    table = Table("", *columns, title=f"{evaluation.record['what']}{played}{source}")
    table.add_row("return", *return_texts(m))
    if "test/win_rate" in m:
        interval = f"{m['test/win_rate_low']:.1%} … {m['test/win_rate_high']:.1%}"
        table.add_row("win rate", f"{m['test/win_rate']:.1%}", interval)
        for name in sorted({e.info["map"] for e in evaluation.episodes if "map" in e.info}):
            table.add_row(f"win rate ({name})", f"{m[f'test/win_rate/{name}']:.1%}", "")
    if "test/draw_rate" in m:
        table.add_row("draws", f"{m['test/draw_rate']:.1%}", "")
    table.add_row("episode length", f"{m['test/episode_length_mean']:.1f}", "")
    for name in sorted({name for e in evaluation.episodes for name in e.info.get("metrics", {})}):
        if (mean := m.get(f"test/{name}_mean")) is not None:  # it may be NaN in every episode
            table.add_row(name.replace("_", " "), f"{mean:.4g}", "")
    console.print(table)
    return console


def return_texts(metrics: Mapping[str, float]) -> tuple[str, str]:
    """The mean return, and its interval where there is one; equal returns have none."""
    low, high = metrics.get("test/return_low"), metrics.get("test/return_high")
    mean, interval = f"{metrics['test/return_mean']:.2f}", ""
    if low is not None and high is not None:
        interval = "all equal" if math.isclose(low, high) else f"{low:.2f} … {high:.2f}"
    return mean, interval


def show_all(each: Sequence[Evaluation]) -> None:
    """The table for the terminal, and where every episode is."""
    console, first = print_checkpoints(each), each[0]
    console.lines(
        f"{plural(len(each), 'checkpoint')}, {plural(len(first.episodes), 'episode')} each, "
        f"seed {first.record['seed']}; every episode is in {shown(first.path)}, the curve in "
        f"{shown(first.path.with_name(CURVE))}"
    )


def print_checkpoints(each: Sequence[Evaluation]) -> Screen:
    """Print the remarks on evaluations and a table with a row for each."""
    console = Screen()
    console.lines(*dict.fromkeys(remark for one in each for remark in one.remarks))
    wins = any("test/win_rate" in one.metrics for one in each)
    names = ("env steps", "return", "95% interval", *(["win rate"] if wins else []), "length")
    columns = (Column(name, justify="right") for name in names)
    table = Table(*columns, title=each[0].record["what"])
    for one in each:
        m = one.metrics
        row = [f"{one.step:,}", *return_texts(m)]
        row += [f"{m['test/win_rate']:.1%}" if "test/win_rate" in m else ""] if wins else []
        table.add_row(*row, f"{m['test/episode_length_mean']:.1f}")
    console.print(table)
    return console
