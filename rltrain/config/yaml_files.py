"""One YAML file of the configuration as data: its comments, defaults, and keys with theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Key:
    """A key as its YAML file writes it."""

    value: str  # 50_000, null, [64, 64]
    meaning: str  # its end-of-line comment

    @property
    def values(self) -> list[str]:
        """The values it can have, where its comment begins with them: ``auto | cpu | cuda``."""
        listed = self.meaning.partition(":")[0].split(" | ")
        names = [match[0] for part in listed if (match := re.match(r"[\w.-]+", part))]
        return names if len(listed) > 1 else []


@dataclass(frozen=True)
class File:
    """One YAML file of the configuration."""

    about: tuple[str, ...]  # the comment lines at its top
    is_global: bool  # its keys are paths from the root, not below its group
    defaults: tuple[object, ...]  # Hydra's defaults list
    keys: Mapping[str, Key]


@cache
def read(path: Path) -> File:
    """Read one YAML file; files do not change while a process runs."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    comments = takewhile(lambda line: line.startswith("#"), lines)
    head = [line.lstrip("# ").rstrip() for line in comments]
    root = yaml.compose(text, Loader=LOADER)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    defaults = [value for key, value in pairs if key.value == "defaults"]
    return File(
        about=tuple(line for line in head if line and not line.startswith("@package")),
        is_global="@package _global_" in head,
        defaults=tuple(yaml.safe_load(yaml.serialize(defaults[0]))) if defaults else (),
        keys=dict(file_keys(pairs, lines, "")),
    )


def file_keys(pairs: Any, lines: list[str], prefix: str) -> Iterator[tuple[str, Key]]:
    """Every value of a mapping by its dotted path."""
    for name, value in pairs:
        path = f"{prefix}{name.value}"
        if path in ("defaults", "hydra"):
            continue
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from file_keys(value.value, lines, f"{path}.")
            continue
        begin, end = value.start_mark, value.end_mark
        one_line = begin.line == end.line
        last = end if one_line else name.end_mark  # where the comment follows
        rest = lines[last.line][last.column :].removeprefix(":").strip()
        text = lines[end.line][begin.column : end.column] if one_line else "…"
        yield path, Key(text, rest.lstrip("# ") if rest.startswith("#") else "")


def merged(files: Iterable[tuple[str, File]]) -> dict[str, Key]:
    """The keys of files by their path, with the comment of the file that defines each first.

    Args:
        files: what stands before the keys of a file, and the file.
    """
    out: dict[str, Key] = {}
    for prefix, file in files:
        for name, key in file.keys.items():
            if not name.endswith("_target_"):
                before = out.get(prefix + name, key)
                out[prefix + name] = Key(key.value, before.meaning or key.meaning)
    return out


def as_yaml(tree: object, emitter: Any = DUMPER) -> str:
    """Plain containers as OmegaConf writes them, with the compiled emitter where there is one."""
    from omegaconf._utils import get_omega_conf_dumper

    represented = {"yaml_representers": get_omega_conf_dumper().yaml_representers}
    dumper: Any = type("Dumper", (emitter,), {**represented, "ignore_aliases": lambda *_: True})
    try:
        return str(yaml.dump(tree, None, dumper, allow_unicode=True, sort_keys=False))
    except UnicodeEncodeError:  # bytes of a path that are no text, which only the other one writes
        return as_yaml(tree, yaml.SafeDumper)


def is_file(value: object) -> bool:
    """Whether the value of ``experiment`` is a file rather than a name."""
    return isinstance(value, str) and value.endswith((".yaml", ".yml"))
