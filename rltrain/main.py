"""The ``rltrain`` entrypoint: compose, check, pick the mode; one clean message, one exit code.

Hydra's own flags go straight to Hydra. Everything else is composed and checked first, so that a
wrong command is refused before a file exists. Only a new training run enters ``hydra.main``, which
makes the folder.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rltrain.config.compose import (
    CATALOG,
    RECOMMENDED,
    compose_checked,
    conf_dir,
    in_quotes,
    jobs,
    original_cwd,
    parse,
    quoted,
    typed_value,
)
from rltrain.config.translate import command_problem
from rltrain.errors import RltrainError, UsageError

if TYPE_CHECKING:
    from rltrain.config.schema import Settings

HYDRA_FLAGS = (
    "--help",
    "-h",
    "--hydra-help",
    "--version",
    "--cfg",
    "-c",
    "--info",
    "-i",
    "--shell-completion",
    "-sc",
    "--resolve",
    "--package",
    "-p",
)
JOB_NAME_LENGTH = 100


def job_name(dirname: str) -> str:
    """A sweep job's overrides as a folder name: letters, digits and ``-_.`` only."""
    dirname = dirname.replace("\\", "").replace(RECOMMENDED, "auto")
    return re.sub(r"[^A-Za-z0-9\-_.]+", "-", dirname)[:JOB_NAME_LENGTH].strip("-_.") or "job"


OmegaConf.register_new_resolver("rltrain_job_name", job_name, replace=True)

exit_codes: list[int] = []
"""Outcomes of the jobs that ran in this process: a job records, it never exits."""


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
def job(config: DictConfig) -> None:
    """One training run, in the folder that Hydra made."""
    from rltrain.config.validate import check
    from rltrain.mode.train import run_training

    composed = compose_checked(list(HydraConfig.get().overrides.task))
    settings = check(composed.plain, composed.choices, composed.defaults, composed.remarks)
    run_dir = Path(HydraConfig.get().runtime.output_dir)
    in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    result = run_training(settings, run_dir, job=run_dir.name if in_sweep else None)
    exit_codes.append(result.exit_code)
    if result.exit_code in (130, 143):
        raise KeyboardInterrupt


def main() -> None:
    """Console entry: exits with the codes of the contract."""
    words = sys.argv[1:]
    try:
        if any(word.partition("=")[0] in HYDRA_FLAGS for word in words):
            job()
            return
        sys.exit(run(words))
    except BrokenPipeError:
        from rltrain.logger.screen import silence_stdout

        silence_stdout()
        sys.exit(141)
    except RltrainError as error:
        print(f"rltrain: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(max(exit_codes, default=130))


def run(words: Sequence[str]) -> int:
    """Carry out a command; returns the exit code.

    Raises:
        RltrainError: with the exit code in it.
    """
    multirun = any(word in ("-m", "--multirun") for word in words)
    overrides = [word for word in words if word not in ("-m", "--multirun")]
    strange = [word for word in overrides if "=" not in word and not word.startswith("~")]
    if strange or any(word.startswith("-") for word in overrides):
        raise UsageError(command_problem(words, CATALOG))
    resumes = typed_value(overrides, "resume") is not None
    evaluates = typed_value(overrides, "mode") == "evaluate"
    if multirun and (resumes or evaluates):
        raise UsageError("A sweep (-m) starts new runs: leave out resume= and mode=evaluate.")
    of_hydra = [word for word in overrides if word.lstrip("+~").startswith("hydra.")]
    if of_hydra and (resumes or evaluates):
        raise UsageError(
            f"{of_hydra[0]}: Hydra's own settings are for new training runs. Leave it out: a "
            "resumed run stays in its folder, and an evaluation writes beside its checkpoint or, "
            "without one, into a new folder in outputs/evaluate."
        )
    if typed_value(overrides, "mode") == "doctor":
        return doctor_mode(overrides)
    if resumes:
        return resume_mode(overrides)
    if evaluates:
        return evaluate_mode(overrides)
    return train_mode(overrides, multirun)


def train_mode(overrides: Sequence[str], multirun: bool) -> int:
    """A new run, or with -m one per combination."""
    settings = [checked(words) for words in all_jobs(overrides, multirun)]
    from rltrain.mode.run_folder import new_run_dir
    from rltrain.mode.train import preflight

    run_dir = new_run_dir(settings[0])
    typed_dir = typed_value(overrides, "hydra.sweep.dir" if multirun else "hydra.run.dir")
    if typed_dir:
        run_dir = original_cwd(str(typed_dir))
    elif multirun:
        run_dir = (
            Path.cwd() / "outputs" / "multirun" / f"{run_dir.name[:19]}-{secrets.token_hex(2)}"
        )
    refuse_shared_folders(settings)
    for each in settings:
        preflight(each, run_dir)
    words = [quoted(word) for word in overrides if not word.startswith("hydra.run.dir=")]
    if multirun:
        words = ["--multirun", *(w for w in words if not w.startswith("hydra.sweep.dir="))]
        unswept = [o.key_or_group for o in parse(overrides) if not o.is_sweep_override()]
        words += [
            f"hydra.sweep.dir={in_quotes(str(run_dir))}",
            f"hydra.job.config.override_dirname.exclude_keys=[{','.join(unswept)}]",
        ]
    else:
        words += [f"hydra.run.dir={in_quotes(str(run_dir))}"]
    sys.argv = [sys.argv[0], *words]
    try:
        job()
    finally:
        if multirun:
            exit_codes[:] = sweep_summary(run_dir)
    return max(exit_codes, default=1)


def refuse_shared_folders(settings: Sequence[Settings]) -> None:
    """Every job of a sweep writes a dataset of its own.

    Raises:
        UsageError: two would write into one folder.
    """
    folders = [s.run.dataset.write for s in settings if s.run.dataset.write is not None]
    if len(set(folders)) < len(folders):
        raise UsageError(
            f"dataset.write={folders[0]}: {len(folders)} jobs cannot write into one folder. Sweep "
            "over the folders too, or record them one by one."
        )


def all_jobs(overrides: Sequence[str], multirun: bool) -> list[list[str]]:
    """The words of every job.

    Raises:
        UsageError: several values for a key without -m.
    """
    found = jobs(parse(overrides))
    if len(found) > 1 and not multirun:
        swept = [o.input_line for o in parse(overrides) if o.is_sweep_override()]
        raise UsageError(
            f"{', '.join(str(s) for s in swept)}: several values for one key are a sweep. Type "
            "rltrain -m … to run them all, or quote the value if the comma belongs to it."
        )
    return found


def checked(words: Sequence[str]) -> Settings:
    """Names first, without torch; then values."""
    composed = compose_checked(words)
    from rltrain.config.validate import check

    return check(composed.plain, composed.choices, composed.defaults, composed.remarks)


def evaluate_mode(overrides: Sequence[str]) -> int:
    """Judge a checkpoint, or a player that needs none."""
    path = typed_value(overrides, "checkpoint")
    if path is None:
        return evaluate_script(overrides)
    load_step = typed_value(overrides, "load_step")
    if load_step is not None and (isinstance(load_step, bool) or not isinstance(load_step, int)):
        raise UsageError(f"load_step={load_step}: expected a whole number of env steps.")
    from rltrain.mode.evaluate import evaluate, show

    words = other_words(overrides, about=("mode", "load_step", "checkpoint"), never=("resume",))
    done = evaluate(original_cwd(str(path)), words, load_step)
    show(done)
    return 0


def doctor_mode(overrides: Sequence[str]) -> int:
    """Look at the machine; 0 if the main job would run."""
    if len(overrides) > 1:
        senseless = [word for word in overrides if word != "mode=doctor"]
        raise UsageError(f"mode=doctor looks at the machine: leave out {', '.join(senseless)}.")
    from rltrain.mode.doctor import examine, runs, show

    findings = examine(Path.cwd() / "outputs")
    show(findings)
    return 0 if runs(findings) else UsageError.exit_code


def evaluate_script(overrides: Sequence[str]) -> int:
    """Judge a player that learns nothing, as the whole configuration says."""
    (words,) = all_jobs(overrides, multirun=False)
    settings = checked(words)
    if settings.algo is not None:
        raise UsageError(
            "mode=evaluate needs a checkpoint: type mode=evaluate checkpoint=RUN_FOLDER "
            "(outputs/<algo>-<env>/<run>), or algo=scripted to see a player that needs none."
        )
    from rltrain.mode.evaluate import evaluate_script as evaluate
    from rltrain.mode.evaluate import show

    show(evaluate(settings))
    return 0


def resume_mode(overrides: Sequence[str]) -> int:
    """Continue a run in its own folder."""
    from rltrain.mode.run_folder import latest_run
    from rltrain.mode.train import resume

    typed = str(typed_value(overrides, "resume"))
    words = other_words(overrides, about=("resume",), never=("mode", "checkpoint", "load_step"))
    path = latest_run(Path.cwd() / "outputs") if typed == "latest" else original_cwd(typed)
    return resume(path, words).exit_code


def other_words(overrides: Sequence[str], about: Sequence[str], never: Sequence[str]) -> list[str]:
    """The words that change a loaded configuration.

    Raises:
        UsageError: words that mean nothing beside those in ``about``.
    """
    names = {word: word.partition("=")[0] for word in overrides}
    senseless = [word for word, name in names.items() if name in never]
    if senseless:
        raise UsageError(f"{about[-1]}= says it all: leave out {', '.join(senseless)}.")
    return [word for word, name in names.items() if name not in about]


def sweep_summary(sweep_dir: Path) -> list[int]:
    """A table of the sweep's jobs; their exit codes."""
    from rich.console import Console
    from rich.table import Table

    from rltrain.mode.run_folder import read_record

    table = Table(title=f"Sweep in {sweep_dir}")
    for column in ("job", "status", "env steps", "last test return", "win rate"):
        table.add_column(column, justify="left" if column in ("job", "status") else "right")
    codes = []
    folders = [p for p in sweep_dir.glob("*") if p.name.partition("_")[0].isdigit()]
    for folder in sorted(folders, key=lambda p: int(p.name.partition("_")[0])):
        record = read_record(folder / "run.json")
        codes.append(int(record.get("exit_code", 1)))
        test = record.get("final_test") or {}
        win = test.get("test/win_rate")
        table.add_row(
            folder.name,
            str(record.get("status", "not started")),
            f"{record.get('env_steps', 0):,}",
            f"{test['test/return_mean']:.2f}" if "test/return_mean" in test else "",
            "" if win is None else f"{win:.0%}",
        )
    Console(highlight=False).print(table)
    return codes or [1]


if __name__ == "__main__":
    main()
