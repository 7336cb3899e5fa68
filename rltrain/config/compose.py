"""Compose overrides into one configuration, and report all unknown names together.

Names are checked before values, and values before anything is constructed or written. Typed names
are checked against a composition of the chosen groups alone, so that a typo can never become a new
key.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rltrain.config.exchange import Layers, fitting_values, partners
from rltrain.config.names import choice_problems, key_problem
from rltrain.config.overrides import (
    group_of,
    is_of_hydra,
    original_cwd,
    parse,
    set_value,
    typed_targets,
    typed_value,
    with_targets,
)
from rltrain.config.saved_config import load_config
from rltrain.config.trust import texts
from rltrain.config.user_yaml import Own, catalog_of, hydra_loader, own_configuration
from rltrain.errors import UsageError

OF_A_RUN = ("hydra.run.dir", "hydra.searchpath")
"""Hydra's own settings that a single run takes."""
NOTHING_OWN = Own()


@dataclass(frozen=True)
class Composition:
    """A composed configuration.

    Attributes:
        tree: plain containers, interpolations as they stand.
        choices: what was chosen in each group.
        defaults: the same without the typed values, resolved.
        overrides: what was typed, ``key=value``.
        remarks: what a person should know about the choices.
        algo_of_env: the algorithm is that of the environment's file; none was typed.
    """

    tree: dict[str, Any]
    choices: dict[str, str]
    defaults: dict[str, Any]
    overrides: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    algo_of_env: bool = False

    @property
    def plain(self) -> dict[str, Any]:
        """The configuration, resolved."""
        return resolved(self.tree, self.overrides, self.choices)

    def run_dir(self) -> Path | None:
        """The folder that ``hydra.run.dir`` names, where it was typed."""
        typed = typed_value(self.overrides, "hydra.run.dir")
        if typed is None:
            return None
        tree = {**self.tree, "run_dir": str(typed)}
        return original_cwd(resolved(tree, self.overrides, self.choices)["run_dir"])

    def files(self, run_dir: Path) -> dict[str, str]:
        """What Hydra writes of a run: names and texts of the files in ``.hydra/``."""
        config = hydra_part(self.overrides, self.choices)
        config.hydra.run.dir = config.hydra.runtime.output_dir = str(run_dir)
        return {
            "config.yaml": OmegaConf.to_yaml(OmegaConf.create(self.tree)),
            "hydra.yaml": OmegaConf.to_yaml(config),
            "overrides.yaml": OmegaConf.to_yaml(config.hydra.overrides.task),
        }


def compose_checked(overrides: Sequence[str]) -> Composition:
    """Compose the overrides of one job, refusing every unknown name together.

    Raises:
        UsageError: unknown keys or choices, two choices of one group, paths as choices, ``+``
            outside the free-form nodes, deletions, Hydra's own settings.
    """
    parsed = parse(overrides)
    if typed_value(overrides, "config") is not None:
        return repeated(overrides)
    own = own_configuration(parsed)
    catalog = catalog_of(own)
    choices = [o for o in parsed if o.key_or_group in catalog.groups]
    custom = typed_targets(parsed)
    try:
        found = of_choices(tuple(own.overrides(choices)), frozenset(map(group_of, custom)), own)
        problems = [text for texts in found.wrong.values() for text in texts]
        for o in parsed:
            if is_of_hydra(o):
                problems += hydra_problem(o)
            elif o not in choices and o.key_or_group.partition(".")[0] not in found.wrong:
                problems += key_problem(o, found.tree, custom, catalog)
        if problems:
            raise UsageError("\n".join(problems))
        defaults = with_targets(found.tree, custom)
        tree = copy.deepcopy(defaults)
        for o in parsed:
            if o not in choices and not is_of_hydra(o):
                set_value(tree, o)
        named = {group_of(path): target.rpartition(".")[2] for path, target in custom.items()}
        picked = {**found.picked, **named}
        if own.preset is not None:
            picked["experiment"] = str(own.preset)
        return Composition(
            tree,
            picked,
            resolved(defaults, overrides, picked),
            tuple(overrides),
            tuple(found.remarks),
            algo_of_env=not {"algo", "experiment"} & {o.key_or_group for o in choices},
        )
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise UsageError(f"The configuration cannot be composed: {problem_line(error)}") from error


def repeated(overrides: Sequence[str]) -> Composition:
    """The configuration of the run that ``config=`` names, with the other overrides over it.

    Raises:
        CheckpointError: it cannot be read or names classes that are not trusted.
        UsageError: overrides that do not fit it.
    """
    path = original_cwd(str(typed_value(overrides, "config")))
    file = path / "config.json" if path.is_dir() else path
    parsed = [o for o in parse(overrides) if o.key_or_group != "config"]
    problems = [text for o in parsed if is_of_hydra(o) for text in hydra_problem(o)]
    if problems:
        raise UsageError("\n".join(problems))
    others = [str(o.input_line) for o in parsed if not is_of_hydra(o)]
    tree, choices, _ = load_config(file, others, learns=True)
    return Composition({**tree, "config": str(path)}, choices, tree, tuple(overrides))


@dataclass(frozen=True)
class Choices:
    """What ``group=name`` overrides come to, without Hydra's own part."""

    tree: dict[str, Any]  # interpolations as they stand
    picked: dict[str, str]  # the option of every group
    wrong: dict[str, list[str]]  # problems of the overrides that are left out, by group
    remarks: list[str]


@lru_cache(maxsize=64)
def of_choices(
    overrides: tuple[str, ...], custom: frozenset[str], own: Own = NOTHING_OWN
) -> Choices:
    """Compose ``group=name`` overrides; options that only work together are chosen together, and
    every part has the values that were written for it. Configuration
    files do not change while a process runs, so its jobs share their compositions.

    Args:
        custom: groups whose part was typed as a ``_target_``.
        own: configuration of the user's own.
    """
    choices, catalog = parse(overrides), catalog_of(own)
    with hydra_loader(own) as loader:
        wrong = choice_problems(choices, catalog)
        right = [o for o in choices if o.key_or_group not in wrong]
        layers, chosen = Layers(loader), [str(o.input_line) for o in right]
        picked, typed = layers.of(chosen)[1], {o.key_or_group for o in right}
        if picked["tuned"] not in catalog.options("tuned"):
            picked = {**picked, "tuned": "none"}  # no recommended settings for this pair
        both = {"algo", "experiment"} <= typed
        preferred = layers.of([f"algo={picked['algo']}"])[1] if both else {}
        try:
            changes = partners(picked, typed, preferred, custom)
        except UsageError as error:
            wrong["partners"], changes = [str(error)], []
        of_changes = [f"{change.group}={change.option}" for change in changes]
        tree, remarks = fitting_values(layers, [*chosen, *of_changes])
    picked = {**picked, **{change.group: change.option for change in changes}}
    return Choices(tree, picked, wrong, [*(change.remark for change in changes), *remarks])


def hydra_problem(o: Override) -> list[str]:
    """What is wrong with a setting of Hydra's own, typed for a single run."""
    if o.key_or_group in OF_A_RUN and not o.is_delete():
        return []
    return [
        f"{o.input_line}: of Hydra's own settings a single run takes {' and '.join(OF_A_RUN)}; the "
        "others are for sweeps (-m). Leave it out."
    ]


def hydra_part(overrides: Sequence[str], choices: Mapping[str, str]) -> DictConfig:
    """Hydra's own configuration of a run."""
    lines = {str(o.input_line): is_of_hydra(o) for o in parse(overrides)}
    with hydra_loader(NOTHING_OWN):
        config = compose("config", return_hydra_config=True)
    config = OmegaConf.masked_copy(config, "hydra")
    config.hydra.overrides.hydra = [line for line, of_hydra in lines.items() if of_hydra]
    config.hydra.overrides.task = [line for line, of_hydra in lines.items() if not of_hydra]
    config.hydra.runtime.choices = dict(choices)
    return config


def resolved(
    tree: Mapping[str, Any], overrides: Sequence[str], choices: Mapping[str, str]
) -> dict[str, Any]:
    """A composition with its interpolations resolved."""
    if any("${hydra:" in text for text in texts(tree)):
        HydraConfig.instance().set_config(hydra_part(overrides, choices))
    out = OmegaConf.to_container(OmegaConf.create(dict(tree)), resolve=True, throw_on_missing=True)
    assert isinstance(out, dict)
    return {str(k): v for k, v in out.items()}


def problem_line(error: Exception) -> str:
    """The message of Hydra, OmegaConf or YAML on one line."""
    lines = str(error).strip().splitlines()
    return " ".join(line.strip() for line in lines) if isinstance(error, YAMLError) else lines[0]
