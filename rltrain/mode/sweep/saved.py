"""Jobs of a sweep from ``sweep.json``, which is untrusted data as every ``config.json`` is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltrain.config.catalog import conf_dir
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import is_of_hydra, parse
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings
from rltrain.config.trust import packages, refuse_foreign_targets, shipped_targets
from rltrain.config.validate.settings import check, check_composition
from rltrain.errors import CheckpointError
from rltrain.mode.run_folder import holds_run, refuse_changes
from rltrain.mode.sweep.plan import FILE, Job, Plan


def saved_jobs(plan: Plan, others: Sequence[str]) -> dict[Job, Settings]:
    """The jobs of a sweep that have not finished, or that ``others`` changes, and their settings.

    Args:
        others: overrides for every job; a ``trust`` among them.

    Raises:
        CheckpointError: a job names classes that are not trusted.
        UsageError: overrides that a resumed run cannot change.
    """
    found = {}
    for job in plan.jobs:
        if holds_run(job.folder):
            tree, choices, changed = load_config(
                job.folder / "config.json", others, learns=True, resumes=True
            )
            refuse_changes(changed)
            if not job.finished or set(changed) - {"trust"}:
                found[job] = check(tree, choices, {})
        else:
            fresh = replace(job, overrides=(*foreign(job, plan), *others))
            found[fresh] = checked(fresh, plan)
    return found


def foreign(job: Job, plan: Plan) -> list[str]:
    """The overrides of a job from a file, without what it trusts.

    Raises:
        CheckpointError: settings of Hydra's own, modules or interpolations among them.
    """
    for o in parse(job.overrides):
        of_hydra = is_of_hydra(o) and o.key_or_group != "hydra.searchpath"
        line = str(o.input_line)
        if of_hydra or "pkg://" in line or ("${" in line and o.key_or_group != "tuned"):
            raise CheckpointError(f"{plan.folder / FILE}: {line} is not taken from a file.")
    return [word for word in job.overrides if not word.lstrip("+").startswith("trust=")]


def checked(job: Job, plan: Plan) -> Settings:
    """The settings of a job that has not begun, which name trusted classes only.

    Raises:
        CheckpointError: they name others.
    """
    composed = compose_checked(job.overrides)
    trust = composed.plain["trust"]
    trusted = trust if isinstance(trust, list) else []
    shipped = shipped_targets(conf_dir())
    refuse_foreign_targets(composed.plain, trusted, plan.folder / FILE, shipped)
    return check_composition(composed)


def job_command(
    job: Job, settings: Settings, others: Sequence[str], threads: Sequence[str]
) -> list[str]:
    """What follows ``rltrain`` to begin the run of a job, or to go on with it.

    Args:
        others: overrides for every job; what they name is trusted, as what ``settings`` name.
        threads: the override for a job's share of the cores.
    """
    if not holds_run(job.folder):
        return [*job.overrides, *threads, f"hydra.run.dir={job.folder}"]
    if any(word.startswith("trust=") for word in others):
        return [f"resume={job.folder}", *others]
    named = packages(settings.plain, shipped_targets(conf_dir()))
    trust = [f"trust=[{','.join(named)}]"] if named else []
    return [f"resume={job.folder}", *others, *trust]
