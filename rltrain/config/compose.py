"""From what was typed to a checked configuration: composition, unknown names, words typed over the
``config.json`` of a run.

Names are judged before values, and values before anything is constructed or written. Typed names
are judged against a composition of the chosen groups alone, so that a typo can never become a new
key.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Sweep
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rltrain.config.catalog import Catalog, conf_dir
from rltrain.config.exchange import Layers, fitting_values, partners
from rltrain.config.suggest import FREE_FORM, for_key, for_node
from rltrain.config.suggest_choice import FEW, MANY, for_choice, listed
from rltrain.config.tree import flat_keys, overlaid, pick, put
from rltrain.config.trust import (
    NOWHERE,
    read_config,
    refuse_foreign_targets,
    shipped_targets,
)
from rltrain.errors import CheckpointError, UsageError

PATH_KEYS = ("checkpoint", "resume", "runs", "dataset.write", "dataset.read")
"""Keys whose values are paths: ``=``, ``,`` and spaces in them need no quotes."""
RECOMMENDED = "${algo}-${env}"
"""What ``tuned=auto`` is to Hydra: the file in ``conf/tuned/`` of that name, if there is one."""
CATALOG = Catalog()


@dataclass(frozen=True)
class Composition:
    """A composed configuration in plain containers, what was chosen in each group, the untyped
    defaults, and what a person should know about the choices.
    """

    plain: dict[str, Any]
    choices: dict[str, str]
    defaults: dict[str, Any]
    remarks: tuple[str, ...] = ()


def quoted(word: str) -> str:
    """A word as Hydra takes it: the value of ``checkpoint=a b,c=d`` quoted, so that it is one text,
    ``tuned=auto`` as an interpolation.
    """
    key, equals, value = word.partition("=")
    if key == "tuned":
        return "tuned=" + re.sub(r"\bauto\b", RECOMMENDED, value)
    if not equals or key not in PATH_KEYS or value[:1] in ("'", '"') or value in ("", "null"):
        return word
    return f"{key}={in_quotes(value)}"


def in_quotes(text: str) -> str:
    """A text as Hydra's grammar takes it literally."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def parse(words: Sequence[str]) -> list[Override]:
    """Hydra's grammar, with every word that does not follow it named.

    Raises:
        UsageError: words that are no ``key=value``.
    """
    parser, parsed, problems = OverridesParser.create(), [], []
    for word in words:
        try:
            parsed.append(parser.parse_override(quoted(word)))
        except HydraException:
            problems.append(
                f"'{word}' cannot be read: expected key=value (a value with blanks, commas or "
                f"brackets needs quotes: \"key='a b'\")."
            )
    if problems:
        raise UsageError("\n".join(problems))
    return parsed


@contextmanager
def hydra_config() -> Iterator[Any]:
    """Hydra's loader over the shipped configuration, wherever the command was started."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3", job_name="rltrain"):
        yield GlobalHydra.instance().config_loader()


def jobs(overrides: Sequence[Override]) -> list[list[str]]:
    """The product of all sweeps: one list of words per job, in argument order."""
    out: list[list[str]] = [[]]
    for override in overrides:
        if isinstance(override.value(), Sweep):
            texts = [f"{override.get_key_element()}={v}" for v in override.sweep_string_iterator()]
        else:
            texts = [str(override.input_line)]
        out = [[*job, text] for job in out for text in texts]
    return out


def compose_checked(words: Sequence[str]) -> Composition:
    """Compose the words of one job, refusing every unknown name together.

    Raises:
        UsageError: unknown keys or choices, two choices of one group, paths as choices, ``+``
            outside the free-form
            nodes, deletions.
    """
    everything = parse(words)
    overrides = [o for o in everything if not o.get_key_element().startswith("hydra")]
    groups = known_groups(conf_dir())
    choices = [o for o in overrides if o.key_or_group in groups]
    chosen = [str(o.input_line) for o in choices]
    custom = typed_targets(overrides)
    try:
        found = of_choices(conf_dir(), tuple(chosen), frozenset(map(group_of, custom)))
        known = found.tree
        problems = [text for texts in found.wrong.values() for text in texts]
        for o in overrides:
            if o not in choices and o.key_or_group.partition(".")[0] not in found.wrong:
                problems += key_problem(o, known, custom)
        if problems:
            raise UsageError("\n".join(problems))
        of_hydra = [str(o.input_line) for o in everything if o not in overrides]
        if of_hydra:  # Hydra itself judges what is its own
            with hydra_config():
                compose("config", overrides=[*chosen, *of_hydra], return_hydra_config=True)
        defaults = with_targets(known, custom)
        full = copy.deepcopy(defaults)
        for o in overrides:
            if o not in choices:
                set_value(full, o)
        named = {group_of(path): target.rpartition(".")[2] for path, target in custom.items()}
        return Composition(
            plain(full), {**found.picked, **named}, plain(defaults), tuple(found.remarks)
        )
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(f"The configuration cannot be composed: {first_line(error)}") from error


@dataclass(frozen=True)
class Choices:
    """What ``group=name`` words come to, without Hydra's own part."""

    tree: dict[str, Any]  # interpolations as they stand
    picked: dict[str, str]  # the option of every group
    wrong: dict[str, list[str]]  # what is wrong with the words, which then are left out, by group
    remarks: list[str]


@lru_cache(maxsize=64)
def of_choices(folder: Path, words: tuple[str, ...], custom: frozenset[str]) -> Choices:
    """Compose ``group=name`` words; options that only work together are chosen together, and every
    part has the values that were written for it. A configuration folder does not change while a
    process lives, so its jobs share their compositions.

    Args:
        custom: groups whose part was typed as a ``_target_``.
    """
    choices = parse(words)
    with hydra_config() as loader:
        wrong = choice_problems(loader, choices)
        right = [o for o in choices if o.key_or_group not in wrong]
        layers, chosen = Layers(loader), [str(o.input_line) for o in right]
        picked, typed = layers.of(chosen)[1], {o.key_or_group for o in right}
        if picked["tuned"] not in options(loader, "tuned"):
            picked = {**picked, "tuned": "none"}  # no recommended settings for this pair
        both = {"algo", "experiment"} <= typed
        preferred = layers.of([f"algo={picked['algo']}"])[1] if both else {}
        try:
            changes = partners(picked, typed, preferred, custom)
        except UsageError as error:
            wrong["partners"], changes = [str(error)], []
        words_of = [f"{change.group}={change.option}" for change in changes]
        tree, remarks = fitting_values(layers, [*chosen, *words_of])
    picked = {**picked, **{change.group: change.option for change in changes}}
    return Choices(tree, picked, wrong, [*(change.remark for change in changes), *remarks])


def group_of(part: str) -> str:
    """The group whose options fill a part: ``algo.loss`` is filled by ``algo/loss``."""
    return part.replace(".", "/")


def typed_targets(overrides: Sequence[Override]) -> dict[str, str]:
    """The parts whose ``_target_`` was typed, by dotted path, and what it names."""
    found = {}
    for o in overrides:
        path, dot, leaf = o.key_or_group.rpartition(".")
        value = o.value()
        if leaf == "_target_" and dot:
            found[path] = str(value)
        elif isinstance(value, dict) and isinstance(value.get("_target_"), str):
            found[o.key_or_group] = value["_target_"]
    return found


def with_targets(tree: Mapping[str, Any], custom: Mapping[str, str]) -> dict[str, Any]:
    """A tree in which every part with another ``_target_`` than before has no keywords yet."""
    out = copy.deepcopy(dict(tree))
    for path, target in custom.items():
        node = pick(out, path)
        if isinstance(node, dict) and node.get("_target_", target) != target:
            put(out, path, {"_target_": target})
    return out


def set_value(tree: dict[str, Any], o: Override) -> None:
    """Do what Hydra does with one ``key=value`` word that ``key_problem`` let pass."""
    key, value = o.key_or_group.replace("/", "."), contained(o.value())
    before = pick(tree, key)
    if o.is_add() and before is not None and not isinstance(value, (dict, list)):
        raise UsageError(f"{o.input_line}: '{key}' is there already. Type {key}=… without the +.")
    if isinstance(before, dict) and isinstance(value, dict):
        value = overlaid(before, value)
    put(tree, key, value)


def contained(value: Any) -> Any:
    """A typed value in plain containers, interpolations as they stand."""
    held = OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=False)
    assert isinstance(held, dict)
    return held["value"]


def plain(tree: dict[str, Any]) -> dict[str, Any]:
    """A composition with its interpolations resolved."""
    out = OmegaConf.to_container(OmegaConf.create(tree), resolve=True, throw_on_missing=True)
    assert isinstance(out, dict)
    return {str(k): v for k, v in out.items()}


def all_groups(loader: Any, parent: str = "") -> Iterator[str]:
    """Every group and sub-group: algo, algo/network, env, …"""
    for name in loader.list_groups(parent):
        group = f"{parent}/{name}" if parent else name
        if not group.startswith("hydra") and name != "shared":
            yield group
            yield from all_groups(loader, group)


@cache
def known_groups(folder: Path) -> frozenset[str]:
    """The groups of a configuration folder, which does not change while a process lives."""
    with hydra_config() as loader:
        return frozenset(all_groups(loader))


def options(loader: Any, group: str) -> list[str]:
    """The choices of a group, presets in sub-folders included (``pymarl/qmix``)."""
    from hydra.core.object_type import ObjectType

    found = list(loader.get_group_options(group, ObjectType.CONFIG))
    if group == "experiment":
        for folder in loader.list_groups(group):
            inner = loader.get_group_options(f"{group}/{folder}", ObjectType.CONFIG)
            found += [f"{folder}/{name}" for name in inner]
    return found


def known_options(loader: Any, group: str) -> list[str]:
    """What can be typed for a group."""
    return sorted([*options(loader, group), *(["auto"] if group == "tuned" else [])])


def choice_problems(loader: Any, choices: Sequence[Override]) -> dict[str, list[str]]:
    """What is wrong with ``group=name`` words, by group."""
    problems: dict[str, list[str]] = {}
    seen = set()
    for o in choices:
        group, value = o.key_or_group, o.value()
        value = "auto" if group == "tuned" and value == RECOMMENDED else value
        known = known_options(loader, group)
        found = []
        if group in seen:
            found.append(f"{group} is chosen twice. Keep one of them.")
        seen.add(group)
        if o.is_add() or o.is_delete():
            found.append(f"{o.input_line}: type {group}=NAME.{listed(group, CATALOG)}")
        elif isinstance(value, (list, dict)):
            found.append(
                f"{o.input_line}: expected one name, got several. One run has one {group}: type "
                f"{group}=NAME, or sweep over names with -m {group}=A,B."
            )
        elif str(value).startswith(("/", "\\")) or ".." in str(value):
            found.append(f"{o.input_line}: got a path.{listed(group, CATALOG)}")
        elif str(value) not in known and not (value is None and group == "experiment"):
            meant = for_choice(group, str(value), CATALOG)
            others = listed(group, CATALOG, FEW if meant.typed else MANY)
            others = "" if meant.sure and meant.typed else others
            found.append(f"{o.input_line}: unknown {group} '{value}'.{meant}{others}")
        if found:
            problems.setdefault(group, []).extend(found)
    return problems


def key_problem(
    o: Override, known: Mapping[str, Any], custom: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """What is wrong with the name in a ``key=value`` word, given the keys there are.

    Args:
        custom: parts whose ``_target_`` was typed; their constructors judge the keys below.
    """
    key = o.key_or_group.replace("/", ".")
    free = any(key.startswith(f"{node}.") for node in FREE_FORM)
    if o.is_delete():
        return [f"{o.input_line}: keys cannot be removed. Type {key}=null to switch a setting off."]
    own = [path for path in custom if isinstance(pick(known, path), Mapping)]
    if any(key == path or key.startswith(f"{path}.") for path in own):
        return []
    if (o.is_add() or o.is_force_add()) and free:
        return []
    keys = flat_keys(known)
    value = str(o.input_line).partition("=")[2]
    if key not in keys or "/" in o.key_or_group:
        where = " (+ adds keys only below " + ", ".join(FREE_FORM) + ")" if o.is_add() else ""
        meant = for_key(key, value, keys, CATALOG)
        others = "" if str(meant) else " rltrain --help lists the keys."
        return [f"Unknown key '{o.key_or_group}'{where}.{meant}{others}"]
    node = keys[key]
    if isinstance(node, dict) and node and not isinstance(o.value(), dict):
        meant = for_node(key, value, node, CATALOG)
        return [f"{o.input_line}: '{key}' holds keys of its own.{meant}"]
    return []


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def load_config(
    file: Path, words: Sequence[str], *, callbacks: bool, env: bool = True
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """A run's configuration with the typed words applied, and only classes that may be built.

    A file cannot vouch for itself: what counts is the ``trust`` that was typed.

    Args:
        callbacks: keep its callbacks; without them their classes need no trust.
        env: keep its environment's class; without it that needs no trust, and cannot be built.

    Returns:
        the configuration, the chosen options, and the keys that differ from the file.

    Raises:
        CheckpointError: the file cannot be read or names classes that nobody trusts.
        UsageError: words that do not fit it.
    """
    saved = read_config(file)
    choices = saved.pop("choices", None)
    if not isinstance(choices, dict) or not {"algo", "env"} <= set(choices):
        raise CheckpointError(f"{file} does not say which algo and env were chosen.")
    shipped = OmegaConf.to_container(OmegaConf.load(conf_dir() / "config.yaml"), resolve=False)
    assert isinstance(shipped, dict)
    saved["trust"] = []
    saved["record"] = False
    tests = saved.get("test")
    if isinstance(tests, dict):  # keys that older runs do not have
        saved["test"] = {"env": {}, "function": None, **tests}
    saved.setdefault("dataset", shipped["dataset"])  # older runs know nothing of it
    if not callbacks:
        saved["callbacks"] = []
        saved["dataset"] = shipped["dataset"]  # what training wrote or read is its own affair
        if isinstance(tests, dict):
            saved["test"]["function"] = None
        if isinstance(saved.get("stop"), dict):  # it may wait for what that function says
            saved["stop"] = dict.fromkeys(saved["stop"])
    tree, changed = apply(words, saved, with_newer_keys(saved, str(choices["env"])))
    if not env and isinstance(tree.get("env"), dict):
        tree["env"]["_target_"] = NOWHERE
    trust = tree["trust"]
    if not isinstance(trust, list) or not all(isinstance(name, str) for name in trust):
        raise UsageError(f"trust={trust}: expected a list of packages, such as trust=[my_package].")
    refuse_foreign_targets(tree, trust, file, shipped_targets(conf_dir()))
    return tree, {str(k): str(v) for k, v in choices.items()}, changed


def with_newer_keys(saved: Mapping[str, Any], env: str) -> Mapping[str, Any]:
    """A saved configuration and the keys that its environment has got since then."""
    files = {p.stem: p for p in (conf_dir() / "env").glob("*.yaml")}
    if env not in files or not isinstance(saved.get("env"), dict):
        return saved
    shipped = OmegaConf.to_container(OmegaConf.load(files[env]), resolve=False)
    assert isinstance(shipped, dict)
    if shipped.get("_target_") != saved["env"].get("_target_"):
        return saved
    return {**saved, "env": {**shipped, **saved["env"]}}


def apply(
    words: Sequence[str], saved: Mapping[str, Any], known: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Typed ``key=value`` words over a saved configuration.

    Args:
        known: the keys that can be typed; those of the saved configuration if not given.

    Returns:
        the new configuration and the keys that differ from the saved one.

    Raises:
        UsageError: new keys and group choices, both refused.
    """
    problems, changed, overrides = [], [], parse(words)
    custom = typed_targets(overrides)
    tree = json.loads(json.dumps(with_targets(saved, custom)))
    for o in overrides:
        key, before = o.key_or_group, pick(tree, o.key_or_group)
        if isinstance(o.value(), Sweep):
            problems.append(f"{o.input_line}: a loaded run takes one value per key.")
        elif key in ("algo", "env", "buffer", "hardware", "logger", "tuned", "experiment"):
            problems.append(
                f"{o.input_line}: a loaded run keeps its {key}. Set single keys, such as "
                f"{key}.NAME=VALUE."
            )
        elif found := key_problem(o, known or tree, custom):
            problems += found
        else:
            set_value(tree, o)
            if pick(tree, key) != before or pick(saved, key) != before:
                changed.append(key)
    if problems:
        raise UsageError("\n".join(problems))
    return tree, changed


def typed_value(words: Sequence[str], key: str) -> Any:
    """What was typed for a key, or None."""
    for o in parse(words):
        if o.key_or_group == key and not isinstance(o.value(), (Sweep, list, dict)):
            return o.value()
    return None


def original_cwd(path: str) -> Path:
    """A typed path, relative to where the command was started."""
    return Path(os.path.expanduser(path)).absolute()
