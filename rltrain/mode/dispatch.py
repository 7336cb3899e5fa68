"""Choose the mode that carries out a command.

Torch is imported after names and values are known to be valid.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from rltrain.common.files import absolute_path
from rltrain.common.machine.places import SWEEP
from rltrain.common.machine.streams import say
from rltrain.config.catalog import SHIPPED
from rltrain.config.combinations import Facts
from rltrain.config.compose import compose_checked, compose_single
from rltrain.config.overrides import require_once, require_one_value, swept_paths, typed_value
from rltrain.config.schema import Settings
from rltrain.config.suggest.value_forms import comma_hint
from rltrain.config.validate.mode_keys import require_read
from rltrain.errors import UsageError
from rltrain.mode.find_run import chosen_again, find_run, require_any


def dispatch(overrides: Sequence[str], *, multirun: bool) -> int:
    """Carry out a command; returns the exit code.

    Raises:
        RltrainError: with the exit code in it.
    """
    if multirun:
        overrides = [swept_paths(text) for text in overrides]
    require_once(overrides)
    path = typed_value(overrides, "resume")
    mode = typed_value(overrides, "mode") if path is None else "resume"
    if mode in MODES:
        require_single(overrides, mode, multirun)
        carry_out = MODES[mode]
    else:
        mode, carry_out = ("sweep", sweep_mode) if multirun else ("train", new_mode)
    is_sweep = path is not None and os.path.lexists(absolute_path(str(path)) / SWEEP)
    if mode not in FROM_CHECKPOINT or typed_value(overrides, "checkpoint") is not None:
        require_read(overrides, "resume of a sweep" if is_sweep else mode)
    return carry_out(overrides) or 0


def new_mode(overrides: Sequence[str]) -> int:
    """Start a new run."""
    composed, settings = compose_single(overrides)
    require_training(settings)
    if settings.run.checkpoint is not None:
        require_any(settings.run.checkpoint)
    from rltrain.mode.run_folder import new_run_dir
    from rltrain.mode.train import run_training

    run_dir = composed.run_dir() or new_run_dir(settings)
    return run_training(settings, run_dir, files=composed.files(run_dir)).exit_code


def sweep_mode(overrides: Sequence[str]) -> int:
    """Run every combination of values, after all of them were composed and checked."""
    from rltrain.config.hydra_sweep import fixed_settings, in_any_folder, job_overrides

    overrides = [in_any_folder(override) for override in overrides]
    try:
        jobs = map(compose_checked, job_overrides(overrides))
        settings = [fixed_settings(overrides, job) for job in jobs]
    except UsageError as error:
        if hint := comma_hint(overrides, str(error)):
            error.args = (f"{error}{hint}",)
        raise
    for each in settings:
        require_training(each)
    from rltrain.mode.sweep.run import begin  # imports torch

    return begin(overrides, settings)


def doctor_mode(overrides: Sequence[str]) -> int:
    """Examine the machine, or an environment; 0 if the main job would run, or nothing is wrong
    with the environment.
    """
    require_one_value(overrides)
    rest = [override for override in overrides if override != "mode=doctor"]
    game = rest == ["env.backend=sc2"]
    has_env = any(override.startswith("env=") for override in rest)
    if rest and not (game or has_env):
        raise UsageError(
            f"mode=doctor examines the machine, with env.backend=sc2 also StarCraft II, or with "
            f"env=… an environment: leave out {', '.join(rest)}."
        )
    from rltrain.mode.doctor import examine, examine_env, runs, show

    if has_env:
        return UsageError.exit_code if examine_env(rest) else 0
    findings = examine(Path.cwd() / "outputs", game)
    show(findings)
    return 0 if runs(findings) else UsageError.exit_code


@chosen_again
def evaluate_mode(overrides: Sequence[str]) -> None:
    """Evaluate a checkpoint or a scripted policy."""
    path, load_step, others = loaded(overrides, ("best", "all"))
    settings = None if path else scripted("evaluate", overrides)
    from rltrain.mode import evaluate

    if settings is not None:
        evaluate.show(evaluate.evaluated(settings, None, others))
    elif load_step == "all":
        evaluate.show_all(evaluate.evaluate_all(str(path), others))
    else:
        evaluate.show(evaluate.evaluate(str(path), others, load_step))


@chosen_again
def watch_mode(overrides: Sequence[str]) -> None:
    """Show test episodes of a checkpoint, or of a scripted policy, in the terminal."""
    path, load_step, others = loaded(overrides)
    if record := [override for override in others if override.startswith("record=")]:
        raise UsageError(
            f"mode=watch always writes videos: leave out {record[0]}, or type mode=evaluate "
            "record=html for a page to look into the episodes."
        )
    here = ("test.n_envs=1", "test.n_workers=null", "record=video")
    changed = ["test.episodes=3", *others, *here]
    settings = None if path else scripted("watch", overrides, ["mode=watch", *changed])
    from rltrain.mode.evaluate import open_checkpoint
    from rltrain.mode.watch import watch

    source = None
    if settings is None:
        source, settings = open_checkpoint(str(path), changed, load_step, plays=True)
    watch(settings, source)


def export_mode(overrides: Sequence[str]) -> None:
    """Write a checkpoint's network as ONNX."""
    path, load_step, others = loaded(overrides)
    path = require_checkpoint("export", path)
    from rltrain.mode.export.network import export

    export(path, others, load_step)


def push_mode(overrides: Sequence[str]) -> None:
    """Send a run to the Hugging Face Hub."""
    path, load_step, others = loaded(overrides)
    path = require_checkpoint("push", path)
    from rltrain.mode.hub.push import push

    say(f"The run is on the Hub: checkpoint={push(path, others, load_step)}")


def init_mode(overrides: Sequence[str]) -> None:
    """Write a small project into ``init.folder``."""
    _, settings = compose_single(overrides)
    taken = ("mode=", "init.folder=", "env=gymnasium", "env=pettingzoo")
    if others := [o for o in overrides if not o.startswith(taken)]:
        raise UsageError(
            "mode=init writes a project: expected init.folder=FOLDER and env=gymnasium or "
            f"env=pettingzoo. Leave out {', '.join(others)}."
        )
    from rltrain.mode.init import write_project

    env = str(typed_value(overrides, "env") or "gymnasium")
    say(write_project(absolute_path(settings.run.init.folder), env))


def import_mode(overrides: Sequence[str]) -> None:
    """Make a run of a checkpoint of PyMARL."""
    path, load_step, others = loaded(overrides)
    path = require_checkpoint("import", path, load_step=load_step)
    composed, settings = compose_single(others)
    from rltrain.mode.import_checkpoint import import_run
    from rltrain.mode.run_folder import new_run_dir

    run_dir = composed.run_dir() or new_run_dir(settings)
    import_run(settings, path, load_step, run_dir, composed.files(run_dir))


def report_mode(overrides: Sequence[str]) -> None:
    """Compare runs in a report."""
    own = ("mode=", "runs=", "report.", "hydra.searchpath=")
    if of_training := [o for o in overrides if not o.lstrip("+").startswith(own)]:
        raise UsageError(
            f"{', '.join(of_training)}: a report reads finished runs and has only the keys runs= "
            "and report.…= (rltrain --help report). Leave it out, or choose runs with "
            "runs='outputs/dqn-*'."
        )
    _, settings = compose_single(overrides)
    from rltrain.mode.report import report

    report(settings.run)


def match_mode(overrides: Sequence[str]) -> None:
    """Let agents play each other, on both sides."""
    from rltrain.mode.match.agents import requested

    request = requested(overrides)
    from rltrain.mode.match.match_results import show
    from rltrain.mode.match.round_robin import match

    show(match(*request))


def tune_mode(overrides: Sequence[str]) -> int:
    """Search hyperparameters; without ``tune=NAME`` in the search space of the algorithm."""
    _, settings = compose_single(overrides)
    if settings.run.tune.space is None:
        algo, spaces = settings.choices["algo"], SHIPPED.options("tune")
        if algo not in spaces:
            raise UsageError(
                f"There is no search space for {algo}: type tune=NAME with one of "
                f"{', '.join(spaces)}, or --config-dir=DIR tune=mine with your own "
                "DIR/tune/mine.yaml (docs/tuning.md)."
            )
        _, settings = compose_single([*overrides, f"tune={algo}"])
    from rltrain.mode.tune.command import tune

    return tune(settings, [o for o in overrides if not o.startswith(("mode=", "tune=", "tune."))])


def resume_mode(overrides: Sequence[str]) -> int:
    """Continue a run in its own folder, or all of a sweep that have not finished."""
    others = other_overrides(overrides, ("resume",), ("mode", "load_step"))
    path = str(typed_value(overrides, "resume"))
    if os.path.lexists(absolute_path(path) / SWEEP):  # also if it is damaged
        from rltrain.mode.sweep.run import resume_sweep

        return resume_sweep(absolute_path(path), others)
    find_run(path)
    from rltrain.mode.resume_settings import resumed_settings
    from rltrain.mode.train import run_training

    settings, run_dir = resumed_settings(path, others)
    return run_training(settings, run_dir, resume=True).exit_code


MODES: Mapping[str, Callable[[Sequence[str]], int | None]] = {
    "doctor": doctor_mode,
    "evaluate": evaluate_mode,
    "watch": watch_mode,
    "push": push_mode,
    "export": export_mode,
    "import": import_mode,
    "init": init_mode,
    "report": report_mode,
    "match": match_mode,
    "tune": tune_mode,
    "resume": resume_mode,
}
"""All modes but training; None is the exit code 0."""
FROM_CHECKPOINT = ("evaluate", "watch", "push", "export", "import")
"""Modes that read ``checkpoint``; without one they say so first, whatever else is typed."""


def scripted(mode: str, overrides: Sequence[str], changed: Sequence[str] | None = None) -> Settings:
    """The settings of a scripted policy, with ``changed`` in place of what was typed;
    UsageError for others, which need a checkpoint.
    """
    _, settings = compose_single(overrides if changed is None else changed)
    require_checkpoint(mode, None, scripted=settings.algo is None)
    require_read(overrides, mode)
    from rltrain.mode.find_opponents import with_opponents

    return with_opponents(settings)


def require_checkpoint(mode: str, path: str | None, **facts: object) -> str:
    """The path of a checkpoint; UsageError if none was typed and this mode cannot do without."""
    for message in Facts({"mode": mode, "checkpoint": path}, **facts).messages("checkpoint"):
        raise UsageError(message)
    return str(path)


def require_single(overrides: Sequence[str], mode: str, multirun: bool) -> None:
    """UsageError for -m, and for settings of Hydra's own where no new run is made."""
    if multirun:
        typed = "resume=" if mode == "resume" else f"mode={mode}"
        raise UsageError(f"A sweep (-m) starts new runs: leave out -m or {typed}.")
    of_hydra = [override for override in overrides if override.lstrip("+~").startswith("hydra.")]
    own = [override for override in of_hydra if not override.startswith("hydra.searchpath=")]
    if own and mode in ("report", "tune"):
        raise UsageError(
            f"{own[0]}: Hydra's own settings are for new training runs. Leave it out; "
            f"{mode}.dir=FOLDER chooses the folder."
        )
    loads = any(typed_value(overrides, key) is not None for key in ("checkpoint", "resume"))
    wrong = of_hydra if loads or mode == "match" else own  # a scripted policy is composed
    if wrong and mode in ("evaluate", "watch", "push", "export", "resume", "match"):
        raise UsageError(
            f"{wrong[0]}: Hydra's own settings are for new training runs. Leave it out: a "
            "resumed run stays in its folder, and an evaluation writes next to its checkpoint or, "
            "without one, into a new folder in outputs/evaluate."
        )


def require_training(settings: Settings) -> None:
    """UsageError for settings that ask for another mode, or to resume a run, which takes effect
    only where it is typed: nothing is composed before.
    """
    run = settings.run
    asked = [f"mode={run.mode}"] if run.mode != "train" else []
    asked += [f"resume={quote(run.resume)}"] if run.resume is not None else []
    if asked:
        raise UsageError(
            f"{asked[0]} takes effect only where it is typed, and not in a file, in a sweep or in "
            f"quotes. Leave it out there, or type rltrain {asked[0]}."
        )


def loaded(
    overrides: Sequence[str], names: Sequence[str] = ("best",)
) -> tuple[str | None, Any, list[str]]:
    """The checkpoint that was typed, its step (of a whole number or one of ``names``; UsageError
    for others), and the other overrides.
    """
    path, load_step = typed_value(overrides, "checkpoint"), None
    others = other_overrides(overrides, ("mode", "load_step", "checkpoint"), ("resume",))
    if path is not None:
        load_step = compose_single([o for o in overrides if o not in others])[1].run.load_step
        if load_step == "all" and "all" not in names:
            raise UsageError(
                "load_step=all: expected the env step of a checkpoint, or best. mode=evaluate "
                "takes all of them."
            )
    if path is not None and typed_value(overrides, "mode") != "import":
        require_any(str(path))
    return None if path is None else str(path), load_step, others


def other_overrides(
    overrides: Sequence[str], about: Sequence[str], never: Sequence[str]
) -> list[str]:
    """The overrides without those in ``about``; UsageError for any of ``never``, which have no
    effect with them.
    """
    names = {override: override.lstrip("+").partition("=")[0] for override in overrides}
    if unused := [override for override, name in names.items() if name in never]:
        raise UsageError(
            f"{', '.join(unused)}: not used together with {about[-1]}=. Leave out one of them."
        )
    return [override for override, name in names.items() if name not in about]
