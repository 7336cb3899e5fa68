"""The user's own configuration: folders of YAML next to the shipped ones, and presets by their
path. It composes, is validated and is suggested as ours is.
"""

from __future__ import annotations

import importlib.util
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override
from yaml import YAMLError

from rltrain.common.files import DEEPEST, absolute_path, open_plain
from rltrain.common.imports import beside_user
from rltrain.common.machine.places import require_possible
from rltrain.config.catalog import CONF, PRESETS, SEVERAL, SHIPPED, Catalog
from rltrain.config.yaml_files import LOADER, is_file
from rltrain.errors import UsageError

MOST_BYTES, MOST_NODES = 1 << 20, 100_000
"""Largest size of a preset's file, and most values in it, aliases written out."""
ODD_NUMBER = re.compile(
    r"[-+]?(0[0-7_]+|0x[\da-f_]+|0b[01_]+|[1-9][\d_]*(:[0-5]?\d)+(\.[\d_]*)?)", re.IGNORECASE
)
"""Octal, hexadecimal, binary and of base 60, in YAML 1.1; typed, they are not numbers."""
TYPES = ("str", "int", "float", "bool", "null", "map", "seq")
TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in TYPES)
"""Types of YAML that a value may have."""


def own_catalog(overrides: Sequence[Override]) -> Catalog:
    """Everything that can be typed, with the folders and the preset that were typed.

    Raises:
        UsageError: they are not there, or hide what is shipped.
    """
    folders: list[Path] = []
    preset = None
    for o in overrides:
        if o.key_or_group == "hydra.searchpath":
            value = o.value()
            listed = value if isinstance(value, list) else [value]
            folders += [config_folder(str(path), str(o.input_line)) for path in listed]
        elif o.key_or_group == "experiment" and is_file(o.value()):
            require_possible(str(o.value()), "experiment")
            preset = absolute_path(str(o.value()))
            if not preset.is_file():
                raise UsageError(f"{o.input_line}: there is no file {preset}.")
            if problem := file_problem(preset):
                raise UsageError(problem)
    if not folders and preset is None:
        return SHIPPED
    state = [] if preset is None else [("", "", preset.stat().st_mtime_ns)]
    for folder in folders:
        require_usable(folder)
        own = {path for group in SHIPPED.groups for path in (folder / group).rglob("*.yaml")}
        for path in sorted(own):
            name = path.relative_to(folder).with_suffix("").as_posix()
            package = "" if name.split("/")[0] in PRESETS else name.rpartition("/")[0]
            changed = path.stat().st_mtime_ns if path.exists() else 0
            state.append((name, file_problem(path, package), changed))
    return _catalog(tuple(dict.fromkeys(folders)), preset, tuple(state))


def file_problem(preset: Path, package: str | None = None) -> str:
    """What is wrong with a preset that is not a YAML mapping, that its aliases make larger than any
    preset, or whose keys choose parts; "" if nothing is.

    Args:
        package: the group below whose key its content lies; "" of a preset of whole runs, None of
            one that is typed by its path.
    """
    try:
        with open_plain(preset) as file:
            text = file.read(MOST_BYTES + 1)
        problem = "is larger than 1 MB" if len(text) > MOST_BYTES else preset_problem(text, package)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text: save it as UTF-8"
    except YAMLError as error:
        problem = f"is not YAML: {' '.join(str(error).split()):.300}"
    except RecursionError:
        problem = "is nested too deeply"
    return problem and (
        f"The configuration cannot be composed: {preset} {problem}. Expected lines such as "
        "total_env_steps: 10_000."
    )


def preset_problem(text: bytes, package: str | None) -> str:
    """The problem with a text as a preset; "" for none."""
    if text.startswith(BOM_UTF8) and package is not None:
        return "begins with a byte order mark: save it as UTF-8 without one"
    depth = 0
    for event in yaml.parse(text.decode("utf-8-sig"), Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            return "is nested too deeply"
        if problem := value_problem(event):
            return problem
    root = yaml.compose(text.decode("utf-8-sig"), Loader=LOADER)
    if root is not None and not isinstance(root, yaml.MappingNode):
        return f"holds {'a list' if isinstance(root, yaml.SequenceNode) else 'a value'}, no keys"
    if n_nodes(root, {}) > MOST_NODES:
        return "names aliases (*name) too often"
    for name, value in root.value if root is not None else ():
        if name.value == "hydra":
            return "sets hydra, which takes effect only where it is typed"
        if name.value == "defaults" and not is_defaults(value):
            return "has defaults that are not a list of choices, such as '- override /algo: dqn'"
    return choice_among_keys(root, package or "")


def value_problem(event: Any) -> str:
    """The problem with a value of a key; "" for none."""
    tag, scalar = getattr(event, "tag", None) or "!", isinstance(event, yaml.ScalarEvent)
    if tag not in ("!", *TAGS):
        return f"holds a value of the type {tag.rpartition(':')[2]:.80}, which no key has"
    if scalar and not event.style and ODD_NUMBER.fullmatch(event.value):
        return f"holds {event.value:.80}, for YAML another number: write decimals, or quotes"
    try:
        if scalar and tag in TAGS:
            LOADER("").construct_object(yaml.ScalarNode(tag, event.value))
    except LookupError:  # of a loader that takes the type of a value on trust
        return f"holds {event.value!a:.80}, which is not of the type {tag.rpartition(':')[2]}"
    except ValueError:
        pass
    return ""


def is_defaults(node: Any) -> bool:
    """Whether a node is a list of names, and of mappings from a group to one."""
    entries = node.value if isinstance(node, yaml.SequenceNode) else [None]
    return all(isinstance(e, yaml.MappingNode) or getattr(e, "tag", "") == TAGS[0] for e in entries)


def choice_among_keys(root: Any, package: str) -> str:
    """The problem of a file whose keys choose what its defaults have to choose; "" for none."""
    start = f"{package}/" if package else ""
    for group in SHIPPED.groups:
        node: Any = root
        key = group.removeprefix(start)
        if not group.startswith(start) or group in PRESETS:
            continue
        for name in key.split("/"):
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            node = next((value for name_node, value in pairs if name_node.value == name), None)
        named = isinstance(node, yaml.ScalarNode) and node.value in SHIPPED.options(group)
        if named or (group in SEVERAL and isinstance(node, yaml.SequenceNode | yaml.ScalarNode)):
            nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
            names = [n.value for n in nodes if n.tag.endswith("str")]
            text = f"[{', '.join(names)}]" if group in SEVERAL else node.value
            return (
                f"sets {key.replace('/', '.')} to {text}, the name of what is chosen: type it "
                f"below defaults, as '- override /{group}: {text}'"
            )
    return ""


def n_nodes(node: Any, known: dict[int, int]) -> int:
    """Values below a node, aliases written out."""
    if id(node) not in known:
        known[id(node)] = 1  # of an alias to a node that it is in
        below = node.value if isinstance(node, yaml.CollectionNode) else []
        flat = (one for each in below for one in (each if isinstance(each, tuple) else (each,)))
        known[id(node)] = 1 + sum(n_nodes(one, known) for one in flat)
    return known[id(node)]


@cache
def _catalog(
    folders: tuple[Path, ...], preset: Path | None, state: tuple[tuple[str, str, int], ...]
) -> Catalog:
    """A catalog, made again where a file was changed: a notebook may edit them between runs."""
    wrong = {name: problem for name, problem, _ in reversed(state)}  # the first folder's
    return Catalog(CONF, *folders, preset=preset, wrong=wrong)


def config_folder(typed: str, line: str) -> Path:
    """The folder that an entry of ``hydra.searchpath`` names: a path or ``pkg://my_package.conf``.

    Raises:
        UsageError: there is none.
    """
    scheme, separator, name = typed.partition("://")
    if separator and scheme == "pkg":
        with beside_user(name):
            try:
                spec = importlib.util.find_spec(name)
            except ImportError:
                spec = None
        paths = [Path(path) for path in (spec.submodule_search_locations or [])] if spec else []
    else:
        require_possible(typed, "hydra.searchpath")
        paths = [absolute_path(name if separator else typed)]
    if not paths or not paths[0].is_dir():
        raise UsageError(
            f"{line}: there is no folder {paths[0] if paths else name}. Expected one that holds "
            "groups as conf/ does, such as FOLDER/experiment/mine.yaml."
        )
    return paths[0]


def require_usable(folder: Path) -> None:
    """Refuse a folder without groups, and files that shipped ones of the same name would hide.

    Raises:
        UsageError: what to do instead.
    """
    if not any((folder / group).is_dir() for group in SHIPPED.groups):
        raise UsageError(
            f"{folder} holds none of the groups {', '.join(SHIPPED.groups)}. Expected files such "
            f"as {folder}/experiment/mine.yaml."
        )
    for path in CONF.rglob("*.yaml"):
        name = path.relative_to(CONF)
        if (folder / name).exists() and not (folder / name).samefile(path):
            raise UsageError(
                f"{folder / name} has the name of a file that rltrain ships, which would be used "
                f"instead. Give it another name, such as {name.with_stem(f'my_{name.stem}')}."
            )
