"""Which mode carries out a command: compose once, validate once, hand over.

Torch is imported after names and values are known to be right.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rltrain.config.compose import compose_checked
from rltrain.config.overrides import original_cwd, parse, typed_value
from rltrain.config.schema import Settings
from rltrain.config.suggest.keys import numbers
from rltrain.config.validate.settings import check_composition
from rltrain.errors import UsageError


def dispatch(overrides: Sequence[str], *, multirun: bool) -> int:
    """Carry out a command; returns the exit code.

    Raises:
        RltrainError: with the exit code in it.
    """
    resumes = typed_value(overrides, "resume") is not None
    mode = typed_value(overrides, "mode")
    evaluates, exports = mode == "evaluate", mode == "export"
    if multirun and (resumes or mode in ("evaluate", "export", "import")):
        raise UsageError(f"A sweep (-m) starts new runs: leave out resume= and mode={mode}.")
    of_hydra = [word for word in overrides if word.lstrip("+~").startswith("hydra.")]
    if of_hydra and (resumes or evaluates or exports):
        raise UsageError(
            f"{of_hydra[0]}: Hydra's own settings are for new training runs. Leave it out: a "
            "resumed run stays in its folder, and an evaluation writes beside its checkpoint or, "
            "without one, into a new folder in outputs/evaluate."
        )
    if mode == "doctor":
        return doctor_mode(overrides)
    if resumes:
        return resume_mode(overrides)
    if evaluates and typed_value(overrides, "checkpoint") is not None:
        return evaluate_mode(overrides)
    if exports:
        return export_mode(overrides)
    if mode == "import":
        return import_mode(overrides)
    return sweep_mode(overrides) if multirun else new_mode(overrides)


def new_mode(overrides: Sequence[str]) -> int:
    """A new run, or the evaluation of a policy that needs no checkpoint."""
    composed = compose_checked(single(overrides))
    settings = check_composition(composed)
    if settings.run.mode == "evaluate":
        return evaluate_script(settings)
    from rltrain.mode.run_folder import new_run_dir
    from rltrain.mode.train import run_training

    run_dir = composed.run_dir() or new_run_dir(settings)
    return run_training(settings, run_dir, files=composed.files(run_dir)).exit_code


def single(overrides: Sequence[str]) -> Sequence[str]:
    """The overrides of one run.

    Raises:
        UsageError: several values for a key without -m.
    """
    swept = [str(o.input_line) for o in parse(overrides) if o.is_sweep_override()]
    if swept:
        one = "".join(numbers(word) for word in swept).replace(" Type", " For one number type")
        raise UsageError(
            f"{', '.join(swept)}: several values for one key are a sweep. Type rltrain -m … to run "
            f"them all, or quote the value if the comma belongs to it.{one}"
        )
    return overrides


def sweep_mode(overrides: Sequence[str]) -> int:
    """One run per combination of values, all composed and checked before the first begins."""
    from rltrain.config.hydra_sweep import job_overrides, sweep

    settings = [check_composition(compose_checked(others)) for others in job_overrides(overrides)]
    from rltrain.mode.sweep import new_sweep_dir, require_new, require_own_datasets, summarize
    from rltrain.mode.train import run_job

    typed = typed_value(overrides, "hydra.sweep.dir")
    folder = original_cwd(str(typed)) if typed else new_sweep_dir()
    require_own_datasets(settings)
    require_new(folder)
    with suppress(KeyboardInterrupt):
        sweep(overrides, folder, partial(run_job, n_jobs=len(settings)))
    return summarize(folder, len(settings))


def doctor_mode(overrides: Sequence[str]) -> int:
    """Look at the machine; 0 if the main job would run."""
    if len(overrides) > 1:
        senseless = [word for word in overrides if word != "mode=doctor"]
        raise UsageError(f"mode=doctor looks at the machine: leave out {', '.join(senseless)}.")
    from rltrain.mode.doctor import examine, runs, show

    findings = examine(Path.cwd() / "outputs")
    show(findings)
    return 0 if runs(findings) else UsageError.exit_code


def evaluate_mode(overrides: Sequence[str]) -> int:
    """Evaluate a checkpoint."""
    path, load_step, others = loaded(overrides, also=("all",))
    if load_step == "all":
        from rltrain.mode.evaluate_all import evaluate_all, show_all

        show_all(evaluate_all(path, others))
        return 0
    from rltrain.mode.evaluate import evaluate, show

    show(evaluate(path, others, load_step))
    return 0


def export_mode(overrides: Sequence[str]) -> int:
    """Write a checkpoint's network as ONNX."""
    if typed_value(overrides, "checkpoint") is None:
        raise UsageError(
            "mode=export needs a checkpoint: type mode=export checkpoint=RUN_FOLDER "
            "(outputs/<algo>-<env>/<run>), or checkpoint=latest for the newest run."
        )
    path, load_step, others = loaded(overrides)
    from rltrain.mode.export import export, show

    show(export(path, others, load_step))
    return 0


def import_mode(overrides: Sequence[str]) -> int:
    """Make a run of a checkpoint of PyMARL."""
    path, load_step, others = loaded(overrides)
    if path == "None" or load_step == "best":
        raise UsageError(
            "mode=import needs a checkpoint folder of PyMARL: type mode=import checkpoint=DIR "
            "algo=… env=…, for example with DIR=results/models/<run>/<env_steps>; of a run's "
            "folder the newest one is taken, or that which load_step=N names."
        )
    composed = compose_checked(single(others))
    settings = check_composition(composed)
    from rltrain.mode.pymarl import import_run, show
    from rltrain.mode.run_folder import new_run_dir

    run_dir = composed.run_dir() or new_run_dir(settings)
    show(import_run(settings, path, load_step, run_dir, composed.files(run_dir)))
    return 0


def loaded(overrides: Sequence[str], also: Sequence[str] = ()) -> tuple[str, Any, list[str]]:
    """The checkpoint that is loaded, its step, and the other overrides.

    Args:
        also: what ``load_step`` may be besides a step and ``best``.

    Raises:
        UsageError: a step that is none, or overrides that mean nothing here.
    """
    load_step = typed_value(overrides, "load_step")
    whole = isinstance(load_step, int) and not isinstance(load_step, bool)
    if not (whole or load_step in (None, "best", *also)):
        names = " or ".join(["best", *also])
        raise UsageError(
            f"load_step={load_step}: expected the env step of a checkpoint, or {names}."
        )
    about = ("mode", "load_step", "checkpoint")
    others = other_overrides(overrides, about=about, never=("resume",))
    return str(typed_value(overrides, "checkpoint")), load_step, others


def evaluate_script(settings: Settings) -> int:
    """Evaluate a scripted policy."""
    if settings.algo is not None:
        raise UsageError(
            "mode=evaluate needs a checkpoint: type mode=evaluate checkpoint=RUN_FOLDER "
            "(outputs/<algo>-<env>/<run>), or algo=scripted to see a policy that needs none."
        )
    from rltrain.mode.evaluate import evaluate_script as evaluate
    from rltrain.mode.evaluate import show

    show(evaluate(settings))
    return 0


def resume_mode(overrides: Sequence[str]) -> int:
    """Continue a run in its own folder."""
    from rltrain.mode.train import resume

    others = other_overrides(
        overrides, about=("resume",), never=("mode", "checkpoint", "load_step")
    )
    return resume(str(typed_value(overrides, "resume")), others).exit_code


def other_overrides(
    overrides: Sequence[str], about: Sequence[str], never: Sequence[str]
) -> list[str]:
    """The overrides that change a loaded configuration.

    Raises:
        UsageError: overrides that mean nothing beside those in ``about``.
    """
    names = {word: word.partition("=")[0] for word in overrides}
    senseless = [word for word, name in names.items() if name in never]
    if senseless:
        raise UsageError(f"{about[-1]}= says it all: leave out {', '.join(senseless)}.")
    return [word for word, name in names.items() if name not in about]
