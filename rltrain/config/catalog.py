"""The YAML files as data: groups, their options, and every key with its default and comment.

Help, completion and suggestions read this. It imports neither hydra nor torch, and a file is read
when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

PRESETS = ("tuned", "experiment")
"""Groups whose choices set keys of other groups and have none of their own."""
SEVERAL = ("logger",)
"""Groups of which several options can be chosen: ``logger=[csv,wandb]``."""
WHOLE = ("algo", "env", "hardware", "logger")
"""Groups whose choice leaves every part with the file and the values that come with it."""
ONE_OF = {
    "algo": ("updates_per_episode", "updates_per_env_step"),
    "algo.target_update": ("episodes", "env_steps", "updates"),
}
"""Keys of which exactly one is set, the others are null."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def conf_dir() -> Path:
    """The shipped configuration: ``conf/`` inside an installed wheel, beside the package in a
    repository.
    """
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


@dataclass(frozen=True)
class Key:
    """A key as its YAML file writes it."""

    value: str  # 50_000, null, [64, 64]
    meaning: str  # its end-of-line comment

    @property
    def values(self) -> list[str]:
        """The values it can have, where its comment begins with them: ``auto | cpu | cuda``."""
        listed = self.meaning.partition(":")[0].split(" | ")
        words = [match[0] for part in listed if (match := re.match(r"[\w.-]+", part))]
        return words if len(listed) > 1 else []


@dataclass(frozen=True)
class File:
    """One YAML file of the configuration."""

    about: tuple[str, ...]  # the comment lines at its top
    is_global: bool  # its keys are paths from the root, not below its group
    defaults: tuple[Any, ...]  # Hydra's defaults list
    keys: Mapping[str, Key]


@cache
def read(path: Path) -> File:
    """Read one YAML file; files do not change while a process runs."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    head = []
    for line in lines:
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# ").rstrip())
    root = yaml.compose(text, Loader=LOADER)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    defaults = [value for key, value in pairs if key.value == "defaults"]
    return File(
        about=tuple(line for line in head if line and not line.startswith("@package")),
        is_global="@package _global_" in head,
        defaults=tuple(yaml.safe_load(yaml.serialize(defaults[0]))) if defaults else (),
        keys=dict(leaves(pairs, lines, "")),
    )


def leaves(pairs: Any, lines: list[str], prefix: str) -> Iterator[tuple[str, Key]]:
    """Every value of a mapping by its dotted path."""
    for name, value in pairs:
        path = f"{prefix}{name.value}"
        if path in ("defaults", "hydra"):
            continue
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from leaves(value.value, lines, f"{path}.")
            continue
        begin, end = value.start_mark, value.end_mark
        one_line = begin.line == end.line
        last = end if one_line else name.end_mark  # where the comment follows
        rest = lines[last.line][last.column :].removeprefix(":").strip()
        text = lines[end.line][begin.column : end.column] if one_line else "…"
        yield path, Key(text, rest.lstrip("# ") if rest.startswith("#") else "")


def each_of(option: str) -> list[str]:
    """The options in a choice: ``[csv,wandb]`` has two, ``csv`` is one."""
    if not option.startswith("["):
        return [option]
    return [name.strip() for name in option.strip("[]").split(",") if name.strip()]


def described(key: Key, before: Key | None) -> Key:
    """A key with the comment of the file that defines it first, if that has one."""
    return Key(key.value, before.meaning) if before and before.meaning else key


class Catalog:
    """The groups and keys of one or more configuration folders; earlier folders hide later ones.

    Args:
        folders: one of them holds ``config.yaml``, whose groups there are.
        files: options that lie elsewhere: ``experiment/mine`` and its file.
    """

    def __init__(self, *folders: Path, files: Mapping[str, Path] | None = None) -> None:
        self.folders = folders or (conf_dir(),)
        self.files = files or {}

    @cached_property
    def groups(self) -> list[str]:
        """Every group and sub-group: algo, algo/network, env, and so on."""
        found: dict[str, None] = {}
        root = next(folder for folder in self.folders if (folder / "config.yaml").is_file())
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            hidden = any(part.startswith((".", "_")) for part in name.split("/"))
            if path.is_dir() and not hidden and "shared" not in name and "hydra" not in name:
                found[name] = None
        return [name for name in found if not name.startswith("experiment/")]

    @cache  # noqa: B019  a catalog is kept as long as the process runs
    def options(self, group: str) -> list[str]:
        """The choices of a group, presets in sub-folders included (``pymarl/qmix``)."""
        pattern = "**/*.yaml" if group == "experiment" else "*.yaml"
        found = {
            path.relative_to(folder / group).with_suffix("").as_posix()
            for folder in self.folders
            for path in (folder / group).glob(pattern)
        }
        found |= {name.removeprefix(f"{group}/") for name in self.files if name.startswith(group)}
        return sorted(found | {"auto"} if group == "tuned" else found)

    def file(self, group: str, option: str) -> File | None:
        """The file behind ``group=option``."""
        if f"{group}/{option}" in self.files:
            return read(self.files[f"{group}/{option}"])
        for folder in self.folders:
            path = folder / group / f"{option}.yaml"
            if path.is_file():
                return read(path)
        return None

    def about(self, group: str, option: str) -> str:
        """What a choice is: the first line of its file."""
        file = self.file(group, option)
        return file.about[0] if file and file.about else ""

    def choices(self, typed: Mapping[str, str]) -> dict[str, str]:
        """The choice of every group when ``typed`` ones are typed, as Hydra would come to it."""
        chosen = dict(typed)
        optional = {}
        for entry in reversed(self.root.defaults):  # what comes later overrides
            if not isinstance(entry, dict):
                continue
            ((name, option),) = entry.items()
            option = f"[{','.join(option)}]" if isinstance(option, list) else option
            if name.startswith("optional "):
                optional[name.removeprefix("optional ")] = str(option)
            elif not name.startswith("override "):
                self._fill(name, chosen.setdefault(name, str(option)), chosen)
        for name, option in optional.items():  # such as tuned: ${algo}-${env}
            meant = re.sub(r"\$\{(\w+)\}", lambda match: chosen[match[1]], option)
            chosen.setdefault(name, meant)
        return chosen

    @property
    def root(self) -> File:
        file = self.file("", "config")
        assert file is not None
        return file

    def keys(self, group: str, option: str, chosen: Mapping[str, str]) -> dict[str, Key]:
        """Every key below a choice and its parts, ``chosen`` or its own, by its full path."""
        parts = dict(chosen)
        out: dict[str, Key] = {}
        for one in each_of(option):
            self._fill(group, one, parts)
            for path, key in self._keys(group, one, parts):
                out[path] = described(key, out.get(path))
        return out

    def all_keys(self, typed: Mapping[str, str]) -> dict[str, Key]:
        """Every key of the composition that ``typed`` choices give."""
        chosen = self.choices(typed)
        out = dict(self.root.keys)
        for group in sorted(chosen, key=lambda name: (name in PRESETS, name == "experiment")):
            if "/" not in group:
                for path, key in self.keys(group, chosen[group], chosen).items():
                    out[path] = described(key, out.get(path))
        return out

    def known(self, typed: Mapping[str, str]) -> dict[str, Any]:
        """Every key of that composition with its value."""
        keys = self.all_keys(typed).items()
        return {path: yaml.load(key.value, Loader=LOADER) for path, key in keys}

    @cached_property
    def homes(self) -> dict[str, list[str]]:
        """Which choices have a key: ``algo.mixer.embed_dim`` has ``algo/mixer=qmix``."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            for option in self.options(group) if group not in PRESETS else ():
                for path, _ in self._keys(group, option, None):
                    part = "/".join(path.split(".")[:2])
                    if part not in self.groups or part == group:
                        found.setdefault(path, []).append(f"{group}={option}")
        return {path: list(dict.fromkeys(at)) for path, at in found.items()}

    def _fill(self, group: str, option: str, chosen: dict[str, str]) -> None:
        """Add the choices that a choice makes in other groups, unless they are made already."""
        own_first = sorted(self._defaults(group, option), key=lambda entry: entry[1] == group)
        for _, at, name in own_first:
            if at == group:
                self._fill(group, name, chosen)
            elif chosen.setdefault(at, name) == name and at.startswith(f"{group}/"):
                self._fill(at, name, chosen)

    def _defaults(self, group: str, option: str) -> Iterator[tuple[bool, str, str]]:
        """The defaults list of a choice: is it an override, of which group, which option."""
        file = self.file(group, option)
        for entry in file.defaults if file else ():
            if isinstance(entry, str):
                if entry != "_self_":
                    yield False, group, entry.partition("@")[0]
                continue
            ((name, value),) = entry.items()
            override = name.startswith("override ")
            at = name.removeprefix("override ").removeprefix("optional ").partition("@")[0]
            yield override, at[1:] if at.startswith("/") else f"{group}/{at}", str(value)

    def _keys(
        self, group: str, option: str, parts: Mapping[str, str] | None
    ) -> Iterator[tuple[str, Key]]:
        """The keys of a choice, later ones over earlier ones; without ``parts`` not theirs."""
        file = self.file(group, option)
        if file is None:
            return
        for override, at, name in self._defaults(group, option):
            if at == group:
                yield from self._keys(group, name, parts)
            elif not override and parts is not None:
                yield from self._keys(at, parts.get(at, name), parts)
        prefix = "" if file.is_global else f"{group.replace('/', '.')}."
        for path, key in file.keys.items():
            if not path.endswith("_target_"):
                yield prefix + path, key
