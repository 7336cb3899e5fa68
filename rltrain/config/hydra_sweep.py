"""Sweeps: Hydra's sweeper and launcher over jobs that are composed as single runs are."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rltrain.common.files import absolute_path, expanded
from rltrain.common.json_text import flat
from rltrain.config.command_line import literal
from rltrain.config.compose import Composition, compose_checked, problem_line
from rltrain.config.overrides import SWEPT_PATHS, contained, jobs, parse, sets_hydra
from rltrain.config.schema import Settings
from rltrain.config.suggest.value_forms import for_plugin
from rltrain.config.user_yaml import own_catalog
from rltrain.config.yaml_files import is_file
from rltrain.errors import UsageError

Jobs = list[tuple[Sequence[str], Path]]
"""The overrides of each job of a sweep, as those of a single run, and its folder."""
Train = Callable[[Settings, Path], None]
"""Makes one run in an existing folder, its outcome in its ``run.json``."""
SEARCH_PATH = "hydra.searchpath"
SWEEPER = ("hydra/sweeper", "hydra.sweeper.")
"""Overrides of Hydra's sweeper, which then chooses the jobs."""
JOB_NAME_LENGTH = 100


def job_name(dirname: str) -> str:
    """A job's overrides as a folder name: letters, digits and ``-_.`` only."""
    return re.sub(r"[^A-Za-z0-9\-_.]+", "-", dirname)[:JOB_NAME_LENGTH].strip("-_.") or "job"


OmegaConf.register_new_resolver("rltrain_job_name", job_name, replace=True)


def own_overrides(hydra: Any) -> list[str]:
    """The overrides of a sweep that name the user's own folders; every job has them."""
    return [line for line in as_typed(hydra.overrides.hydra) if line.startswith(SEARCH_PATH)]


def as_typed(overrides: Any) -> list[str]:
    """Overrides from Hydra's configuration, their interpolations as they stand."""
    lines: Any = OmegaConf.to_container(overrides, resolve=False)
    return [*lines]


class JobLoader(ConfigLoaderImpl):
    """Composes each job as a single run is composed, with the sweep's part of Hydra."""

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        composed = compose_checked([*sweep_overrides, *own_overrides(master_config.hydra)])
        config = OmegaConf.create({**composed.tree, "hydra": master_config.hydra.copy()})
        OmegaConf.set_struct(config, True)
        OmegaConf.set_readonly(config.hydra, False)
        names = config.hydra.job.config.override_dirname
        config.hydra.runtime.choices = composed.choices
        config.hydra.overrides.task = list(sweep_overrides)
        config.hydra.job.override_dirname = get_overrides_dirname(
            parse(sweep_overrides), list(names.exclude_keys), names.item_sep, names.kv_sep
        )
        OmegaConf.copy_cache(from_config=master_config, to_config=config)
        return config


def in_any_folder(override: str) -> str:
    """An override that means the same in every folder: absolute paths for those of files that are
    there, unless several are swept over, and for ``hydra.searchpath``.
    """
    key, _, typed = override.partition("=")
    is_preset = key == "experiment" and is_file(typed.strip("'\""))
    if not is_preset and key not in ("hydra.searchpath", "config", *SWEPT_PATHS):
        return override
    value = parse([override])[0].value()
    if key == "hydra.searchpath":
        listed = map(str, value if isinstance(value, list) else [value])
        paths = (path if "://" in path else str(absolute_path(path)) for path in listed)
        return f"{key}=[{','.join(map(literal, paths))}]"
    if isinstance(value, str) and os.path.exists(expanded(value)):
        return f"{key}={absolute_path(value)}"
    return override


def job_overrides(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of every job, without those for Hydra itself.

    Raises:
        UsageError: nothing is swept over, or two jobs are the same.
    """
    parsed = parse(overrides)
    chosen = {o.key_or_group for o in parsed if sets_hydra(o)}
    if "hydra.run.dir" in chosen:
        raise UsageError(
            "hydra.run.dir is the folder of a single run. Type hydra.sweep.dir=FOLDER for that of "
            "a sweep."
        )
    started_elsewhere = any(key.startswith(("hydra/", "hydra.sweeper")) for key in chosen)
    found = jobs([o for o in parsed if not sets_hydra(o) or o.key_or_group == SEARCH_PATH])
    if not started_elsewhere and not any(o.is_sweep_override() for o in parsed):
        compose_checked(found[0]).settings()  # a list in place of several values is refused
        raise UsageError(
            "-m runs one job per combination of values, but no key has several. Type for example "
            "seed=1,2,3, or leave out -m for a single run."
        )
    typed = [{o.key_or_group: contained(o.value()) for o in parse(job)} for job in found]
    values = [  # equal numbers alike, 1 and 1.0; of a key that is typed twice the last one
        str(json.loads(json.dumps(each), parse_int=Fraction, parse_float=Fraction))
        for each in typed
    ]
    counted = Counter(values)
    if twice := next((job for job, v in zip(found, values, strict=True) if counted[v] > 1), None):
        raise UsageError(
            f"Two jobs of this sweep are the same, {' '.join(twice)}: their results would count "
            "twice. Leave one out."
        )
    return found


def fixed_settings(overrides: Sequence[str], composed: Composition) -> Settings:
    """The settings of a job or trial; UsageError for a value, typed or in a file, of the clock."""
    for text in (*overrides, *(f"{key}={value}" for key, value in flat(composed.tree).items())):
        if re.search(r"\$\{\s*now\s*:", text):
            raise UsageError(f"{text}: the time differs from run to run. Type the value itself.")
    return composed.settings()


def composed_jobs(loader: JobLoader, config: DictConfig, jobs: Sequence[Sequence[str]]) -> Jobs:
    """The jobs of a sweep.

    Raises:
        UsageError: two jobs have one folder, or one is not in that of the sweep.
    """
    composed: dict[Path, Sequence[str]] = {}
    for number, overrides in enumerate(jobs):
        job = loader.load_sweep_config(config, list(overrides))
        with open_dict(job):
            job.hydra.job.id, job.hydra.job.num = f"0_{number}", number
        HydraConfig.instance().set_config(job)
        sweep = Path(job.hydra.sweep.dir)
        folder = sweep / str(job.hydra.sweep.subdir)
        if folder in composed or folder.parent != sweep or folder.name == "..":
            raise UsageError(
                f"hydra.sweep.subdir gives a job the folder {folder}; expected its own in {sweep}. "
                "Type 'hydra.sweep.subdir=${hydra:job.num}', or leave it out."
            )
        composed[folder] = [*overrides, *own_overrides(job.hydra)]
    return [(lines, folder) for folder, lines in composed.items()]


def train_job(train: Train, config: DictConfig) -> None:
    """The task function that Hydra's launchers call for each job, perhaps in another process."""
    about = HydraConfig.get()
    composed = compose_checked([*as_typed(about.overrides.task), *own_overrides(about)])
    train(composed.settings(), Path(about.runtime.output_dir))


def other_launcher(overrides: Sequence[str]) -> str | None:
    """The override that chooses another launcher than ours or a sweeper of Hydra's, if any."""
    keys = {str(o.input_line): o.key_or_group.replace("/", ".") for o in parse(overrides)}
    others = ("hydra.launcher", "hydra.sweeper")
    return next((line for line, key in keys.items() if key.startswith(others)), None)


def sweeper_for(
    overrides: Sequence[str], folder: Path, train: Train | None = None
) -> tuple[Jobs, Callable[[], None]]:
    """Every combination as a job in its own folder below ``folder``, and a function that begins the
    sweep: it writes ``multirun.yaml``, and makes the runs if it is given ``train``.

    Args:
        train: for another launcher than ours, which runs the jobs.

    Raises:
        UsageError: Hydra's own settings that Hydra refuses.
    """
    parsed = parse(overrides)
    lines = [str(o.input_line) for o in parsed if not sets_hydra(o)]
    unswept = [o.key_or_group for o in parsed if not o.is_sweep_override()]
    of_hydra = [
        *(str(o.input_line) for o in parsed if sets_hydra(o)),
        f"hydra.job.config.override_dirname.exclude_keys=[{','.join(unswept)}]",
    ]
    of_hydra = [line for line in of_hydra if not line.startswith((SEARCH_PATH, "hydra.sweep.dir="))]
    of_hydra.append(f"hydra.sweep.dir={literal(str(folder))}")
    try:
        catalog = own_catalog(parsed)
        config = catalog.hydra_with(of_hydra)
        ours = {group: name for group, name in catalog.layers()[1].items() if group != "logger"}
        config.hydra.runtime.choices = {**ours, **config.hydra.runtime.choices}
        config.hydra.mode = RunMode.MULTIRUN
        config.hydra.overrides.task = lines
        config.hydra.overrides.hydra += [
            str(o.input_line) for o in parsed if o.key_or_group == SEARCH_PATH
        ]
        config = OmegaConf.masked_copy(config, "hydra")
        job_loader = JobLoader(catalog.loader.get_search_path())
        known = not any(line.lstrip("+").startswith(SWEEPER) for line in of_hydra)
        of_jobs = jobs([o for o in parsed if not sets_hydra(o)]) if known else []
        composed = composed_jobs(job_loader, config, of_jobs)
        sweeper = None
        if train is not None:
            context = HydraContext(config_loader=job_loader, callbacks=Callbacks(config))
            sweeper = Plugins.instance().instantiate_sweeper(
                hydra_context=context, task_function=partial(train_job, train), config=config
            )
    except (HydraException, OmegaConfBaseException) as error:
        problem = problem_line(error)
        raise UsageError(f"The sweep cannot begin: {problem}{for_plugin(problem)}") from error

    def begin() -> None:
        OmegaConf.save(config, folder / "multirun.yaml")
        if sweeper is not None:
            sweeper.sweep(arguments=lines)

    return composed, begin
