"""Jobs of a sweep from ``sweep.json``, which is untrusted data as every ``config.json`` is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from rltrain.common.files import kept_file
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import parse, typed_leaves
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings
from rltrain.config.trust import as_words, chooses_or_sets, gate, outside, packages
from rltrain.config.validate.check import check
from rltrain.errors import CheckpointError, NotTypedError, UsageError
from rltrain.mode.run_folder import holds_run, refuse_changes
from rltrain.mode.sweep.plan import FILE, Job, Plan


def saved_jobs(plan: Plan, others: Sequence[str]) -> dict[Job, Settings]:
    """The jobs of a sweep that have not finished, or that ``others`` changes, and their settings.

    Args:
        others: overrides for every job; a ``trust`` among them.

    Raises:
        CheckpointError: a job names classes that are not trusted, or files of configuration.
        UsageError: overrides that a resumed run cannot change, or keys that must be typed.
    """
    found = {}
    for job in plan.jobs:
        try:
            if holds_run(job.folder):
                config = job.folder / "config.json"
                tree, choices, changed = load_config(config, others, learns=True, resumes=True)
                refuse_changes(changed)
                if not job.finished or set(changed) - {"trust"}:
                    found[job] = check(tree, choices, {})
            else:
                fresh = replace(job, overrides=(*foreign(job, plan), *others))
                found[fresh] = checked(fresh, plan, others)
        except NotTypedError as error:
            raise UsageError(f"{error.reason} {type_again(plan)}") from error
    return found


def type_again(plan: Plan) -> str:
    """How to go on with a sweep whose file is not enough."""
    words = ["rltrain", "-m", *plan.overrides, f"hydra.sweep.dir={plan.folder}"]
    return f"Type the command of the sweep again, if you know it:\n  {shlex.join(words)}"


def foreign(job: Job, plan: Plan) -> list[str]:
    """The overrides of a job from a file, without what it trusts.

    Raises:
        CheckpointError: more than choices that are shipped and plain values.
    """
    words = [word for word in job.overrides if not word.lstrip("+").startswith("trust=")]
    for o in parse(words):
        if not chooses_or_sets(o):
            raise CheckpointError(
                f"{plan.folder / FILE}: {o.input_line!a} is not taken from a file, but only "
                f"choices that rltrain ships and plain values. {type_again(plan)}"
            )
    return words


def checked(job: Job, plan: Plan, typed: Sequence[str]) -> Settings:
    """The settings of a job that has not begun, which name trusted classes only.

    Raises:
        CheckpointError: they name others.
        NotTypedError: keys that must be ``typed``.
    """
    composed = compose_checked(job.overrides)
    trust = composed.plain["trust"]
    trusted = trust if isinstance(trust, list) else []
    gate(composed.plain, plan.folder / FILE, trust=trusted, typed=typed_leaves(parse(typed)))
    return composed.settings()


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
    typed = {word.partition("=")[0] for word in others}
    named = packages(settings.plain)
    words = [f"trust=[{','.join(named)}]"] if named else []
    words += as_words(
        {
            names: value
            for names, value in outside(settings.plain).items()
            if kept_file(job.folder, ".".join(names)) is None
        }
    )
    again = [word for word in words if word.partition("=")[0] not in typed]
    return [f"resume={job.folder}", *others, *again]
