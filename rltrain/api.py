"""The Python interface of rltrain: the same runs, results and checks as the command line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Literal, overload

from rltrain.algo.learner import Learner
from rltrain.algo.loaded_policy import GreedyPolicy
from rltrain.assemble.build_learner import build_learner
from rltrain.assemble.env import prepare_machine
from rltrain.assemble.rollouts import build_greedy_policy
from rltrain.callback import Callback
from rltrain.common.files import absolute_path
from rltrain.common.machine.places import require_path
from rltrain.common.machine.torch_settings import plain_settings
from rltrain.common.spec_record import require_spec
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import typed_value
from rltrain.config.python_objects import (
    Overrides,
    as_texts,
    env_overrides,
    require_load_step,
    texts_for,
    with_env,
    with_objects,
)
from rltrain.config.schema import Settings
from rltrain.errors import SIGNAL_CODES, UsageError, failure, memory_errors, usage_errors
from rltrain.mode import evaluate as evaluation
from rltrain.mode.find_run import chosen_again
from rltrain.mode.match.agents import requested
from rltrain.mode.match.match_results import Match
from rltrain.mode.match.round_robin import match as play_match
from rltrain.mode.resume_settings import resumed_settings
from rltrain.mode.run_folder import new_run_dir
from rltrain.mode.train import Result, driven_trainer, run_training
from rltrain.trainer import Trainer
from rltrain.types import EnvSpec

__all__ = [
    "GreedyPolicy",
    "Match",
    "Result",
    "evaluate",
    "load_policy",
    "make_learner",
    "make_trainer",
    "match",
    "resume",
    "train",
]

log = logging.getLogger("rltrain")


def log_remarks(remarks: Iterable[str]) -> None:
    """Log every remark once."""
    for remark in dict.fromkeys(remarks):
        log.warning("%s", remark)


def settings_from(overrides: Overrides) -> Settings:
    """Compose and check overrides.

    Raises:
        UsageError: unknown names, wrong types or ranges.
    """
    return compose_checked(as_texts(overrides)).settings()


def train(
    overrides: Overrides = (),
    *,
    env: Callable[..., object] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> Result:
    """Train one run in a new folder below ``outputs/``.

    Args:
        overrides: command-line overrides, ``["algo=dqn", "seed=1"]``, or a mapping,
            ``{"algo": "dqn", "seed": 1}``.
        env: class or factory of a Gymnasium or PettingZoo environment, configured by the keys of
            ``env=gymnasium`` or ``env=pettingzoo``, or, with an argument ``n_envs``, of a
            ``VectorEnv``; None for the environment of the overrides.
        callbacks: callback objects, called after the callbacks of the overrides.
        progress: show the same output as the command; ``logger.console=false`` also disables it.

    Raises:
        UsageError: the overrides are invalid; raised before anything is written.
        RuntimeError: the run failed.
        KeyboardInterrupt: Ctrl-C, after the run was saved; SystemExit for other signals.
    """
    composed = compose_checked(env_overrides(texts_for("train", overrides), env))
    settings = with_objects(composed.settings(), env, callbacks)
    if settings.run.mode != "train" or settings.run.resume is not None:
        raise UsageError(
            "rltrain.train starts a new run: use rltrain.evaluate for mode=evaluate, and "
            "rltrain.resume to continue a run."
        )
    run_dir = composed.run_dir() or new_run_dir(settings)
    result = run_training(settings, run_dir, files=composed.files(run_dir), loud=progress)
    return succeeded(result)


def resume(
    path: str | PathLike[str],
    total_env_steps: int | None = None,
    *,
    overrides: Overrides = (),
    env: Callable[..., object] | None = None,
    callbacks: Sequence[Callback] | None = None,
    trust: Sequence[str] = (),
    progress: bool = True,
) -> Result:
    """Continue a run in its own folder.

    Args:
        path: a run folder, a folder of runs for the newest one, or ``latest`` (in ``outputs/``).
        total_env_steps: new length of the run; None keeps the old one.
        overrides: other keys that a resumed run may change, such as ``{"stop.hours": 1}``.
        env: the class or factory passed to the original run, if any.
        callbacks: the objects passed to the original run, in the same order; their saved states are
            restored by class. ``[]`` continues without them.
        trust: your own packages that the run's configuration may name.
        progress: show the same output as the command.

    Raises:
        CheckpointError: no trusted checkpoint at ``path``.
        UsageError: a resumed run cannot change these overrides, or objects are missing.
        RuntimeError: the run failed.
        KeyboardInterrupt: Ctrl-C, after the run was saved; SystemExit for other signals.
    """
    path = require_path(path, "path")
    texts = texts_for("resume", overrides, trust, {"total_env_steps": total_env_steps})
    saved, run_dir = resumed_settings(path, texts, env=env is None)
    settings = with_objects(saved, env, callbacks)
    return succeeded(run_training(settings, run_dir, resume=True, loud=progress))


def succeeded(result: Result) -> Result:
    """Return the result of a run that neither failed nor was stopped.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the run; a loop over runs ends too.
        SystemExit: another signal stopped it, with its exit code.
        RuntimeError: the run failed.
    """
    if result.exit_code == SIGNAL_CODES["SIGINT"]:
        run = str(result.run_dir)
        raise KeyboardInterrupt(f"The run is saved. rltrain.resume({run!r}) continues.")
    if result.exit_code in SIGNAL_CODES.values():
        raise SystemExit(result.exit_code)
    if result.exit_code:
        cause = "one of several processes did" if result.error is None else failure(result.error)
        log = result.run_dir / "train.log"
        where = f" The traceback is in {log}." if log.exists() else ""
        raise RuntimeError(f"The run failed: {cause.rstrip('.')}.{where}")
    return result


@overload
def evaluate(
    path: str | PathLike[str],
    episodes: int | None = None,
    seed: int | None = None,
    env: Callable[..., object] | None = None,
    trust: Sequence[str] = (),
    load_step: int | Literal["best"] | None = None,
    *,
    overrides: Overrides = (),
) -> Result: ...


@overload
def evaluate(
    path: str | PathLike[str],
    episodes: int | None = None,
    seed: int | None = None,
    env: Callable[..., object] | None = None,
    trust: Sequence[str] = (),
    *,
    load_step: Literal["all"],
    overrides: Overrides = (),
) -> dict[int, Result]: ...


@memory_errors()
@plain_settings()
@chosen_again
def evaluate(
    path: str | PathLike[str],
    episodes: int | None = None,
    seed: int | None = None,
    env: Callable[..., object] | None = None,
    trust: Sequence[str] = (),
    load_step: int | Literal["best", "all"] | None = None,
    *,
    overrides: Overrides = (),
) -> Result | dict[int, Result]:
    """Evaluate a checkpoint on test episodes, as mode=evaluate does. Remarks, such as that a
    damaged checkpoint was skipped, are logged as warnings.

    Args:
        path: a run folder, its ``checkpoints/``, one checkpoint, a folder of runs for the newest
            one, or ``latest`` for the newest one below ``outputs/``.
        env: the class or factory passed to ``make_trainer`` or ``train``, if any.
        trust: your own packages whose environments may be imported.
        load_step: use the checkpoint nearest to this env step, or the one with the best test;
            ``"all"`` returns a ``Result`` for each checkpoint, by env step.
        overrides: other overrides of ``mode=evaluate``, such as ``{"env.map_name": "8m"}``.

    Raises:
        CheckpointError: no trusted checkpoint at ``path``.
        UsageError: invalid overrides; NotTypedError: overrides must include certain keys.
    """
    path = require_path(path, "path")
    require_load_step(load_step, ("best", "all"))
    typed = texts_for("evaluate", overrides, trust, {"test.episodes": episodes, "seed": seed})
    handed = None if env is None else partial(with_env, env=env)
    if load_step == "all":
        every = evaluation.evaluate_all(path, typed, handed)
        log_remarks(remark for one in every for remark in one.remarks)
        return {one.step: Result(one.path.parent, one.metrics) for one in every}
    done = evaluation.evaluate(path, typed, load_step, handed)
    log_remarks(done.remarks)
    return Result(done.path.parent, done.metrics)


@memory_errors()
@plain_settings()
def match(
    checkpoints: Sequence[str | PathLike[str]],
    battles: int | None = None,
    trust: Sequence[str] = (),
    *,
    overrides: Overrides = (),
    progress: bool = True,
) -> Match:
    """Let agents play each other on both sides and rate them, as mode=match does.

    Args:
        checkpoints: paths as for ``evaluate``, names of scripted policies, or ``builtin`` for the
            environment's own enemies.
        battles: battles per pairing; None for the default of ``match.battles``.
        trust: your own packages that the agents' configurations may name.
        overrides: other overrides of ``mode=match``, such as ``{"env.map_name": "8m"}``.
        progress: print a line per pairing.

    Raises:
        CheckpointError: a checkpoint is missing or cannot be trusted.
        UsageError: the agents cannot play each other.
    """
    if isinstance(checkpoints, str) or not isinstance(checkpoints, Sequence):
        raise UsageError(f"checkpoints={checkpoints!r}: expected a list, such as [A, 'builtin'].")
    paths = [require_path(path, "checkpoints") for path in checkpoints]
    quoted = ",".join("'" + path.replace("'", "''") + "'" for path in paths)
    texts = texts_for("match", overrides, trust, {"match.battles": battles})
    return play_match(*requested([*texts, f"checkpoints=[{quoted}]"]), loud=progress)


def make_trainer(
    overrides: Overrides = (),
    run_dir: str | PathLike[str] | None = None,
    env: Callable[..., object] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """Return a trainer to drive by hand: ``iterate``, ``train``, ``test``, ``save``, ``restore``,
    ``export``, ``close``.

    Args:
        overrides, env, callbacks: as for ``train``.
        run_dir: None for a new folder below ``outputs/``. If the folder holds a run, call
            ``restore`` with one of its checkpoints first.

    Raises:
        UsageError: the overrides are invalid.
    """
    overrides = env_overrides(texts_for("train", overrides), env)
    settings = with_objects(settings_from(overrides), env, callbacks)
    if typed_value(overrides, "hydra.run.dir"):
        raise UsageError("hydra.run.dir: a trainer built by hand has run_dir=FOLDER for it.")
    if settings.run.resume is not None:
        raise UsageError(
            f"resume={settings.run.resume}: make_trainer makes a trainer of the overrides that it "
            "is given. Use rltrain.resume(PATH); or give it the overrides of that run and "
            "run_dir=PATH, then call trainer.restore(PATH)."
        )
    if settings.run.mode != "train":
        raise UsageError(
            f"mode={settings.run.mode}: make_trainer makes trainers. Leave it out; "
            "rltrain.evaluate(PATH) plays test episodes with a checkpoint's weights."
        )
    for override in overrides:
        if override.startswith("logger=") and override != "logger=[]":
            raise UsageError(
                f"{override}: a trainer built by hand writes metrics.jsonl and nothing else. Leave "
                "it out; rltrain.train writes to all loggers, and on_log of a callback sees every "
                "row."
            )
    folder = new_run_dir(settings) if run_dir is None else require_path(run_dir, "run_dir")
    return driven_trainer(settings, absolute_path(folder))


@usage_errors()
def make_learner(overrides: Overrides, spec: EnvSpec) -> Learner:
    """Return a learner for environments with this spec; update it with ``Batch`` and ``Clock``."""
    settings = settings_from(texts_for("train", overrides))
    if (settings.run.mode, settings.run.resume, settings.run.checkpoint) != ("train", None, None):
        raise UsageError(
            "make_learner makes a learner of initial weights: leave out mode=, resume= and "
            "checkpoint=. rltrain.make_trainer begins with the weights of checkpoint=PATH."
        )
    require_spec(spec, "spec")
    return build_learner(settings, spec, prepare_machine(settings))


@memory_errors()
@plain_settings()
@chosen_again
def load_policy(
    path: str | PathLike[str],
    load_step: int | Literal["best"] | None = None,
    trust: Sequence[str] = (),
) -> GreedyPolicy:
    """Return the greedy policy of a checkpoint; only its network is built. ``path`` and
    ``load_step`` are as for ``evaluate``.

    Args:
        trust: your own packages whose networks may be imported.

    Raises:
        CheckpointError: no trusted checkpoint at ``path``.
    """
    path, typed = require_path(path, "path"), texts_for("evaluate", (), trust)
    require_load_step(load_step, ("best",))
    found, settings = evaluation.open_checkpoint(path, typed, load_step, plays=False)
    log_remarks(found.remarks)
    if settings.hardware.device == "cuda":  # where it was trained
        settings = replace(settings, hardware=replace(settings.hardware, device="auto"))
    return build_greedy_policy(settings, found.folder, found.step)
