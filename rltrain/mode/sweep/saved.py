"""Jobs of a sweep from ``sweep.json``, which is untrusted data as every ``config.json`` is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltrain.common.checkpoint.opponent_files import kept_file
from rltrain.common.files import json_object
from rltrain.common.machine.places import SWEEP
from rltrain.config.command_line import shell_word
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import parse, typed_leaves
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings
from rltrain.config.trust import as_overrides, chooses_or_sets, gate, outside, packages
from rltrain.config.validate.checker import check
from rltrain.errors import CheckpointError, NotTypedError, RltrainError, UsageError
from rltrain.logger.screen import shown
from rltrain.mode.resume_settings import LONGEST, refuse_changes, require_run_of
from rltrain.mode.run_folder import holds_run
from rltrain.mode.sweep.plan import SweepJob, SweepPlan

TRIED = 50
"""Jobs of which it is tried whether they can be resumed from the file."""


def saved_jobs(plan: SweepPlan, others: Sequence[str]) -> dict[SweepJob, Settings]:
    """The jobs of a sweep that have not finished, or that ``others`` changes, and their settings.

    Args:
        others: overrides for every job; a ``trust`` among them.

    Raises:
        CheckpointError: a job names classes that are not trusted, or files of configuration, or the
            run in its folder is another one.
        UsageError: overrides that a resumed run cannot change, or keys that must be typed.
    """
    jobs = {}
    for job in plan.jobs:
        try:
            if holds_run(job.folder):
                config = job.folder / "config.json"
                if not json_object(config):
                    raise CheckpointError(
                        f"{config} is missing or damaged. Put it back (each of the run's "
                        f"checkpoints has a copy), or move {shown(job.folder)} away: "
                        f"{shell_word(f'resume={shown(plan.folder)}')} begins this run again."
                    )
                require_run_of(job.overrides, job.folder)
                tree, choices, changed = load_config(config, others, learns=True, resumes=True)
                refuse_changes(changed, others)
                if not job.finished or set(changed) - {"trust"}:
                    jobs[job] = check(tree, choices, {})
            else:
                fresh = replace(job, overrides=(*foreign(job, plan), *others))
                composed = compose_checked(fresh.overrides)
                trust, typed = composed.plain["trust"], typed_leaves(parse(others))
                trusted = trust if isinstance(trust, list) else []
                gate(composed.plain, plan.folder / SWEEP, trust=trusted, typed=typed)
                jobs[fresh] = composed.settings()
        except NotTypedError as error:
            raise UsageError(f"{error.reason} {type_again(plan)}") from error
    return jobs


def resume_command(plan: SweepPlan) -> str | None:
    """What to type to continue a sweep from its files; None where they are not enough."""
    trusted = [o for o in plan.overrides if o.lstrip("+").startswith("trust=")]
    waiting = [job for job in plan.jobs if not job.finished][:TRIED]
    try:
        trees = (
            json_object(job.folder / "config.json") or compose_checked(job.overrides).plain
            for job in waiting
        )
        named = sorted({package for tree in trees for package in packages(tree)})
        if named and not trusted:
            trusted = [f"trust=[{','.join(named)}]"]
        if not saved_jobs(replace(plan, jobs=tuple(waiting)), trusted):
            return None
    except RltrainError:
        return None
    return " ".join(map(shell_word, [f"resume={shown(plan.folder)}", *trusted]))


def type_again(plan: SweepPlan) -> str:
    """How to continue with a sweep whose file is not enough."""
    return f"Run the command of the sweep again, if you know it:\n  {plan.command}"


def foreign(job: SweepJob, plan: SweepPlan) -> list[str]:
    """The overrides of a job from a file, without what it trusts; CheckpointError for more than
    choices that are shipped and plain values.
    """
    overrides = [
        override for override in job.overrides if not override.lstrip("+").startswith("trust=")
    ]
    for override in overrides:
        try:
            taken = len(override) <= LONGEST and all(map(chooses_or_sets, parse([override])))
        except UsageError:
            taken = False
        if not taken:
            raise CheckpointError(
                f"{plan.folder / SWEEP}: {override!a:.80} is not taken from a file, but only "
                f"choices that rltrain ships and plain values. {type_again(plan)}"
            )
    return overrides


def job_command(
    job: SweepJob, settings: Settings, others: Sequence[str], threads: Sequence[str]
) -> list[str]:
    """Return the arguments of ``rltrain`` that start the run of a job, or resume it.

    Args:
        others: overrides for every job; what they name is trusted, as what ``settings`` name.
        threads: the override for a job's share of the cores.
    """
    if not holds_run(job.folder):
        return [*job.overrides, *threads, f"hydra.run.dir={job.folder}"]
    typed = {override.partition("=")[0] for override in others}
    named = packages(settings.plain)
    overrides = [f"trust=[{','.join(named)}]"] if named else []
    overrides += as_overrides(
        {
            names: value
            for names, value in outside(settings.plain).items()
            if kept_file(job.folder, ".".join(names)) is None
        }
    )
    again = [override for override in overrides if override.partition("=")[0] not in typed]
    return [f"resume={job.folder}", *others, *again]
