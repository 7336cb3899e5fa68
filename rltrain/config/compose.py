"""Compose overrides into one configuration, and report all unknown names together.

Names are checked before values, and values before anything is constructed or written. Typed names
are checked against a composition of the chosen groups alone, so that a typo can never become a new
key. What only some commands need is in other files: ``exchange.py`` (exchanged parts),
``names.py`` (wrong names), ``user_yaml.py`` and ``saved_config.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rltrain.common.files import absolute_path, refuse_special
from rltrain.common.json_text import copied
from rltrain.config.catalog import SEVERAL, SHIPPED, WHOLE_GROUPS, Catalog, MutableTree, Tree
from rltrain.config.overrides import (
    flat_keys,
    jobs,
    parse,
    pick,
    put,
    require_one_value,
    set_value,
    sets_hydra,
    stacked,
    typed_targets,
    typed_value,
    with_targets,
)
from rltrain.config.schema import Settings
from rltrain.config.user_yaml import own_catalog
from rltrain.config.yaml_files import as_yaml
from rltrain.errors import UsageError

MOST_TRIED = 100  # jobs of a suggested sweep


@dataclass(frozen=True)
class Composition:
    """A composed configuration.

    Attributes:
        tree: plain containers, interpolations as they stand.
        choices: what was chosen in each group.
        untyped: the same without the typed values.
        overrides: what was typed, ``key=value``.
        catalog: what there was to choose from.
        remarks: what the user should know about the choices.
        env_chose_algo: the algorithm is that of the environment's file; none was typed.
    """

    tree: MutableTree
    choices: dict[str, str]
    untyped: MutableTree
    overrides: tuple[str, ...]
    catalog: Catalog = SHIPPED
    remarks: tuple[str, ...] = ()
    env_chose_algo: bool = False

    @property
    def hydra(self) -> MutableTree:
        """Hydra's own part for a run of these overrides."""
        tree: Any = OmegaConf.to_container(self.catalog.hydra, enum_to_str=True)
        lines = {str(o.input_line): sets_hydra(o) for o in parse(self.overrides)}
        put(tree, "hydra.overrides.hydra", [line for line, of_hydra in lines.items() if of_hydra])
        put(tree, "hydra.overrides.task", [line for line, hydra in lines.items() if not hydra])
        put(tree, "hydra.job.override_dirname", "")
        put(tree, "hydra.runtime.choices", dict(self.choices))
        return dict(tree)

    @property
    def plain(self) -> MutableTree:
        """The configuration, resolved."""
        return self.resolved(self.tree)

    def resolved(self, tree: Tree) -> MutableTree:
        """A tree of this composition with its interpolations resolved.

        Raises:
            UsageError: an interpolation that does not exist.
        """
        text = str(tree)
        if "${" not in text and "???" not in text:
            return copied(dict(tree))
        if "${hydra:" in text:
            own: Any = OmegaConf.merge(self.catalog.hydra, self.hydra)
            HydraConfig.instance().set_config(own)
        try:
            config = OmegaConf.create(dict(tree))
            out: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        except OmegaConfBaseException as error:
            key = error.full_key or "the configuration"
            advice = (
                f"Type {key}=VALUE without an interpolation" if error.full_key else "Correct it"
            )
            problem = problem_line(error).removeprefix(
                "KeyError raised while resolving interpolation: "
            )
            raise UsageError(f"{key} cannot be resolved: {problem}. {advice}.") from error
        return dict(out)

    def settings(self) -> Settings:
        """Check types and ranges.

        Raises:
            UsageError: every problem at once.
        """
        from rltrain.config.validate.checker import check
        from rltrain.config.validate.looked_up import require_environments
        from rltrain.config.validate.mode_keys import NEVER_IN_A_FILE, require_typed

        defaults = self.resolved(self.untyped)
        if self.catalog is not SHIPPED:
            require_typed(defaults, ("mode", "resume", *NEVER_IN_A_FILE))
        settings = check(self.plain, self.choices, defaults, self.overrides)
        require_environments(settings)
        return replace(settings, remarks=self.remarks, env_chose_algo=self.env_chose_algo)

    def run_dir(self) -> Path | None:
        """The folder that ``hydra.run.dir`` names, where it was typed."""
        typed = typed_value(self.overrides, "hydra.run.dir")
        if typed is None:
            return None
        hydra = {"run": {"dir": str(typed)}}
        tree = self.resolved({**self.tree, "hydra": hydra})
        return absolute_path(str(tree["hydra"]["run"]["dir"]))

    def files(self, run_dir: Path) -> dict[str, str]:
        """Return the files that Hydra writes into ``.hydra/``: texts by name."""
        hydra = self.hydra
        put(hydra, "hydra.run.dir", str(run_dir))
        put(hydra, "hydra.runtime.output_dir", str(run_dir))
        return {
            "config.yaml": as_yaml(self.tree),
            "hydra.yaml": as_yaml(hydra),
            "overrides.yaml": as_yaml(pick(hydra, "hydra.overrides.task")),
        }


def compose_checked(overrides: Sequence[str], catalog: Catalog | None = None) -> Composition:
    """Compose the overrides of one job, refusing every unknown name together.

    Args:
        catalog: what a suggestion that is tried can choose from; no others are made for it. None:
            everything that can be typed.

    Raises:
        UsageError: unknown keys or choices, two choices of one group, paths as choices, ``+``
            and ``~`` outside the free-form nodes, Hydra's own settings.
    """
    is_tried = catalog is not None
    if not is_tried and typed_value(overrides, "config") is not None:
        return repeated(overrides)
    parsed = parse(overrides)
    catalog = catalog or own_catalog(parsed)
    choices = [o for o in parsed if o.key_or_group in catalog.groups]
    values = [o for o in parsed if o not in choices]
    custom = typed_targets(values)
    parts = {path: path.replace(".", "/") for path in custom}  # the groups whose options fill them
    files = [file.replace("/", "=", 1) for file in catalog.files]  # of a preset that is a file
    named = [
        files[0] if files and o.key_or_group == "experiment" else str(o.input_line) for o in choices
    ]
    try:
        chosen = compose_choices(tuple(named), frozenset(parts.values()), catalog)
        known = flat_keys(chosen.tree)
        plain = {key for key, value in known.items() if not isinstance(value, dict)}
        if chosen.wrong or not all(
            o.type is OverrideType.CHANGE and o.key_or_group in plain for o in values
        ):
            from rltrain.config.names import refuse_wrong
            from rltrain.config.suggest.choices import not_tried

            here = {"mode", *catalog.groups}.difference(chosen.wrong)
            right = [o for o in parsed if o.key_or_group in here]
            tries = not_tried if is_tried else partial(refusal, catalog, right)
            refuse_wrong(values, copied(chosen.tree), chosen.wrong, custom, catalog, tries)
        untyped = with_targets(chosen.tree, custom) if custom else chosen.tree
        tree = copied(untyped)
        for o in values:
            if not sets_hydra(o):
                set_value(tree, o)
        typed = {parts[path]: target.rpartition(".")[2] for path, target in custom.items()}
        picked = {**chosen.picked, **typed}
        picked |= {file.partition("/")[0]: str(path) for file, path in catalog.files.items()}
        return Composition(
            tree,
            picked,
            untyped,
            tuple(str(o.input_line) for o in parsed),
            catalog,
            tuple(chosen.remarks),
            env_chose_algo=not {"algo", "experiment"} & {o.key_or_group for o in choices},
        )
    except (HydraException, OmegaConfBaseException, YAMLError, UnicodeDecodeError) as error:
        paths = (catalog.path(line.replace("=", "/", 1)) for line in named)
        own = ", ".join(str(path) for path in paths if path and catalog.main not in path.parents)
        text = f"The configuration cannot be composed: {problem_line(error)}"
        raise UsageError(f"{text} (with {own})" if own else text) from error


def compose_single(overrides: Sequence[str]) -> tuple[Composition, Settings]:
    """Compose and validate the overrides of a single run, not of a sweep.

    Raises:
        UsageError: everything that is wrong, or several values for a key without -m.
    """
    require_one_value(overrides)
    composed = compose_checked(overrides)
    return composed, composed.settings()


def refusal(catalog: Catalog, choices: Sequence[Override], typed: str) -> str:
    """Why overrides would be refused with these choices, "" if they would not be.

    Args:
        typed: the overrides as a shell takes them, after -m those of a sweep.
    """
    words = shlex.split(typed)
    overrides = [word for word in words if not word.startswith("-")]
    try:
        parsed = [o for o in parse(overrides) if not sets_hydra(o)]
        if "-m" not in words:
            require_one_value(overrides)
        elif modes := [o for o in parsed if o.key_or_group in ("mode", "resume")]:
            swept = next((o.input_line for o in parsed if o.is_sweep_override()), "-m")
            return f"{swept}: {modes[0].input_line} takes one value for each key."
        for job in map(parse, jobs(parsed)[:MOST_TRIED]):
            groups = {o.key_or_group for o in job}
            others = [o for o in choices if o.key_or_group not in groups]
            own = own_catalog(job) if catalog is SHIPPED else catalog  # of a suggested file
            compose_checked([str(o.input_line) for o in (*others, *job)], own).settings()
    except UsageError as error:
        return str(error).splitlines()[0]
    return ""


def repeated(overrides: Sequence[str]) -> Composition:
    """The configuration of the run that ``config=`` names, with the other overrides over it.

    Raises:
        CheckpointError: it cannot be read or names classes that are not trusted.
        UsageError: overrides that do not fit it.
    """
    from rltrain.config.names import hydra_problem
    from rltrain.config.saved_config import load_config, read_config
    from rltrain.config.validate.mode_keys import require_typed

    path = absolute_path(str(typed_value(overrides, "config")))
    file = path / "config.json" if path.is_dir() else path
    if file != path and file.is_symlink():
        refuse_special(path, file)
    parsed = [o for o in parse(overrides) if o.key_or_group != "config"]
    problems = [text for o in parsed if sets_hydra(o) for text in hydra_problem(o)]
    problems += [
        f"{o.input_line}: no choices are made with config=, which repeats a run. Leave it out."
        for o in parsed
        if o.key_or_group == "hydra.searchpath"
    ]
    if problems:
        raise UsageError("\n".join(problems))
    others = [str(o.input_line) for o in parsed if not sets_hydra(o)]
    tree, choices, changed = load_config(file, others, learns=True)
    require_typed(tree)
    saved, untyped = read_config(file), copied(tree)
    for key in changed:
        put(untyped, key, pick(saved, key))
    return Composition({**tree, "config": str(path)}, choices, untyped, tuple(overrides))


@dataclass(frozen=True)
class Choices:
    """The composition of ``group=name`` overrides."""

    tree: MutableTree  # without Hydra's own part, interpolations as they stand
    picked: dict[str, str]  # the option of every group
    wrong: Mapping[str, list[str]]  # problems of the overrides that are left out, by group
    remarks: Sequence[str] = ()


@cache
def compose_choices(
    overrides: tuple[str, ...], custom: frozenset[str], catalog: Catalog = SHIPPED
) -> Choices:
    """Compose ``group=name`` overrides. Configuration files do not change while a process runs, so
    its jobs share their compositions.

    Args:
        custom: groups whose part was typed as a ``_target_``.
        catalog: what there is to choose from.
    """
    choices = parse(overrides)
    wrong: dict[str, list[str]] = {}
    if not are_names(choices, catalog):
        from rltrain.config.names import choice_problems

        known = [o for o in choices if are_names([o], catalog)]
        wrong = choice_problems(choices, catalog, partial(refusal, catalog, known))
    right = {
        o.key_or_group: str(o.input_line)
        for o in choices
        if o.key_or_group not in wrong and o.value() is not None  # experiment=null: none
    }
    layers, options = catalog.layers(*right.values())
    tree = stacked(layer.tree for layer in layers)
    picked: dict[str, Any] = dict(options)
    if picked["tuned"] not in catalog.options("tuned"):
        picked["tuned"] = "none"  # no recommended settings for this pair
    if catalog is SHIPPED and not custom and set(WHOLE_GROUPS).issuperset(right):
        return Choices(tree, picked, wrong)
    from rltrain.config.exchange import fitting_values, partners, require_known_keys

    require_known_keys(catalog, list(right.values()))
    both, changes = {"algo", "experiment"} <= right.keys(), dict[str, tuple[str, str]]()
    preferred = catalog.layers(f"algo={picked['algo']}")[1] if both else {}
    try:
        changes = partners(picked, right.keys(), preferred, custom)
    except UsageError as error:
        wrong = {**wrong, "partners": [str(error)]}
    changed = {group: option for group, (option, _) in changes.items()}
    together = [*right.values(), *(f"{group}={option}" for group, option in changed.items())]
    tree, left_out = fitting_values(catalog, together)
    remarks = [*(remark for _, remark in changes.values()), *left_out]
    return Choices(tree, {**picked, **changed}, wrong, remarks)


def are_names(choices: Sequence[Override], catalog: Catalog) -> bool:
    """Whether overrides choose an option there is, each of another group."""
    for o in choices:
        group, value = o.key_or_group, o.value()
        names = value if isinstance(value, list) and group in SEVERAL else [value]
        known = {*catalog.options(group)}
        if o.type is not OverrideType.CHANGE or not known.issuperset(map(str, names)):
            return False
    return len({o.key_or_group for o in choices}) == len(choices)


def problem_line(error: Exception) -> str:
    """The message of Hydra, OmegaConf or YAML on one line."""
    lines = str(error).strip().splitlines()
    return " ".join(line.strip() for line in lines) if isinstance(error, YAMLError) else lines[0]
