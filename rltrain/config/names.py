"""Groups, choices and keys: what is wrong with a typed name that does not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hydra.core.override_parser.types import Override, OverrideType

from rltrain.config.catalog import FREE_FORM, SEVERAL, Catalog, Tree
from rltrain.config.overrides import flat_keys, is_below, pick, set_value, sets_hydra
from rltrain.config.suggest.choices import FEW, MANY, Refusal, for_choice, listed, not_tried
from rltrain.config.suggest.keys import for_deletion, for_key, for_node
from rltrain.config.validate.constructor import show
from rltrain.config.yaml_files import is_file
from rltrain.errors import NamesError

OF_A_RUN = ("hydra.run.dir", "hydra.searchpath")
"""Hydra's own settings that a single run takes."""


def refuse_wrong(
    values: Sequence[Override],
    known: dict[str, object],
    wrong: Mapping[str, list[str]],
    custom: Mapping[str, str],
    catalog: Catalog,
    refusal: Refusal = not_tried,
) -> None:
    """Report everything that is wrong with the names in the overrides, if anything is.

    Args:
        values: the overrides that choose no option of a group.
        known: the composition of the chosen options, in which they are set.
        wrong: what is wrong with the choices, by group; keys below such a group are not checked.
        custom: parts whose ``_target_`` was typed.
        refusal: tries what a suggestion says to type.

    Raises:
        NamesError: every problem at once.
    """
    problems, keys = [text for texts in wrong.values() for text in texts], flat_keys(known)
    for o in sorted(values, key=lambda o: o.key_or_group not in keys):  # answers depend on the rest
        if sets_hydra(o):
            problems += hydra_problem(o)
        elif o.key_or_group.partition(".")[0] not in wrong:
            found = key_problem(o, known, custom, catalog, refusal)
            if not found:
                set_value(known, o)
            problems += found
    if problems:
        raise NamesError("\n".join(problems))


def hydra_problem(o: Override) -> list[str]:
    """Return the problem of a setting of Hydra's own that was typed for a single run, if any."""
    if o.key_or_group in OF_A_RUN and not o.is_delete():
        return []
    return [
        f"{o.input_line}: of Hydra's own settings a single run takes {' and '.join(OF_A_RUN)}; the "
        "others are for sweeps (-m). Leave it out."
    ]


def choice_problems(
    choices: Sequence[Override], catalog: Catalog, refusal: Refusal
) -> dict[str, list[str]]:
    """Return the problems of ``group=name`` overrides, by group; ``refusal`` tries suggestions."""
    problems: dict[str, list[str]] = {}
    seen = set()
    for o in choices:
        group, value = o.key_or_group, o.value()
        known = catalog.options(group)
        wrong = []
        if group in seen:
            wrong.append(f"{group} is chosen twice. Keep one of them.")
        seen.add(group)
        if o.type is not OverrideType.CHANGE:
            wrong.append(f"{o.input_line}: type {group}=NAME.{listed(group, catalog)}")
        elif isinstance(value, list) and group in SEVERAL:
            for name in (each for each in value if str(each) not in known):
                meant = for_choice(group, str(name), catalog, refusal)
                wrong.append(f"unknown {group} '{name}'.{meant}{listed(group, catalog)}")
        elif isinstance(value, (list, dict)):
            wrong.append(
                f"{o.input_line}: expected one name, got {show(value)}. One run has one {group}: "
                f"type {group}=NAME, or sweep over names with -m {group}=A,B."
            )
        elif str(value).startswith((".", "/", "\\")) or ".." in str(value) or is_file(value):
            own = (
                " Your own file: experiment=./my.yaml; for other groups --config-dir=FOLDER "
                f"with FOLDER/{group}/NAME.yaml.{listed(group, catalog)}"
            )
            wrong.append(
                f"{o.input_line}: got a path.{for_choice(group, str(value), catalog, refusal)}{own}"
            )
        elif str(value) not in known and not (value is None and group == "experiment"):
            name = "null" if value is None else str(value)
            meant = for_choice(group, name, catalog, refusal)
            others = listed(group, catalog, FEW if meant.typed else MANY)
            others = "" if meant.sure and meant.typed else others
            wrong.append(f"{o.input_line}: unknown {group} '{name}'.{meant}{others}")
        if wrong:
            problems.setdefault(group, []).extend(wrong)
    return problems


def key_problem(
    o: Override,
    known: Tree,
    custom: Mapping[str, str],
    catalog: Catalog,
    refusal: Refusal = not_tried,
) -> list[str]:
    """Return the problem of the name in a ``key=value`` override, if any, given the known keys.

    Args:
        custom: parts whose ``_target_`` was typed; their constructors check the keys below.
        refusal: tries what a suggestion says to type.
    """
    key = o.key_or_group.replace("/", ".")
    keys, free = flat_keys(known), is_below(key, FREE_FORM)
    if o.is_delete():
        homes = {*catalog.homes} - {*FREE_FORM}
        of_class = "_target_" in key or f"{key}._target_" in keys or key in homes
        if free and key in keys and not of_class:
            return []
        if key not in keys:
            return [f"{o.input_line}: there is nothing to remove. Leave it out."]
        return [f"{o.input_line}: keys cannot be removed.{for_deletion(key, known, refusal)}"]
    own = [path for path in custom if isinstance(pick(known, path), Mapping)]
    if is_below(key, own):
        return []
    if (o.is_add() or o.is_force_add()) and free and key not in FREE_FORM:
        return []
    value = str(o.input_line).partition("=")[2]
    if key not in keys or "/" in o.key_or_group:
        where = " (+ adds keys only below " + ", ".join(FREE_FORM) + ")" if o.is_add() else ""
        meant = for_key(key, value, keys, catalog, refusal)
        others = "" if str(meant) else " rltrain --help lists the keys."
        return [f"Unknown key '{o.key_or_group}'{where}.{meant}{others}"]
    node = keys[key]
    if isinstance(node, dict) and node and not isinstance(o.value(), dict):
        meant = for_node(key, value, keys, catalog, refusal)
        return [f"{o.input_line}: '{key}' holds keys of its own.{meant}"]
    if o.is_add() and node is not None and not isinstance(o.value(), (dict, list)):
        return [f"{o.input_line}: '{key}' already exists. Type {key}=… without the +."]
    return []
