"""Combinations that work and that are refused, and keys that nothing reads: the table in
``combinations.yaml``, from which exchanges of parts, refusals, warnings and
``docs/combinations.md`` come. For one more, add a row.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from rltrain.common.checkpoint.opponent_files import SELF
from rltrain.config.overrides import is_below
from rltrain.config.schema import Settings
from rltrain.config.validate.constructor import show
from rltrain.config.yaml_files import LOADER

FILE = Path(__file__).with_suffix(".yaml")
COMPARED = {
    **{">": operator.gt, ">=": operator.ge, "<": operator.lt},
    **{"!=": operator.ne, "==": operator.eq},
}


@cache
def table() -> Mapping[str, Any]:
    """The whole table, as the comments at the top of its file describe it."""
    return dict(yaml.load(FILE.read_text(encoding="utf-8"), Loader=LOADER))


@cache
def together() -> tuple[Mapping[str, list[str]], ...]:
    """Rows of options that work with each other, by group."""
    return tuple({g: names.split() for g, names in row.items()} for row in table()["together"])


class Facts(Formatter):
    """A configuration and facts about it, by dotted names, and messages about them.

    Args:
        plain: the configuration; a missing key is null.
        facts: parts that were built, and what else a row may name.
    """

    def __init__(self, plain: Mapping[str, object], **facts: object) -> None:
        self.plain, self.facts = plain, facts

    def value(self, name: str) -> Any:
        """The value of a key, or of an attribute of a fact."""
        first, *others = name.split(".")
        value = self.facts[first] if first in self.facts else self.plain.get(first)
        for part in others:
            value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
        return value

    def fits(self, value: Any, wanted: object) -> bool:
        """Whether a value is as one entry of a condition names it."""
        if wanted is None or wanted == "given":
            return (value is None) == (wanted is None)
        if isinstance(wanted, bool):
            return bool(value) is wanted
        sign, _, name = str(wanted).partition(" ")
        if sign == "~":
            return value is not None and re.match(name, str(value)) is not None
        if sign not in COMPARED:
            return bool(value == wanted)
        known = "." in name or name in self.facts or name in self.plain
        other = self.value(name) if known else name
        other = int(name) if name.isdecimal() else other
        return value is not None and other is not None and bool(COMPARED[sign](value, other))

    def get_field(self, field_name: str, args: object, kwargs: Mapping[str, object]) -> Any:
        return kwargs[field_name] if field_name in kwargs else self.value(field_name), field_name

    def convert_field(self, value: object, conversion: object) -> object:
        # a compiled part has the name of the class that it stands for
        return getattr(value, "made_for", type(value)).__name__ if conversion == "t" else value

    def format_field(self, value: object, format_spec: str) -> str:
        return format(value, format_spec) if format_spec else show(value)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the condition of a row holds."""
        return all(self.fits(self.value(name), wanted) for name, wanted in row["if"].items())

    def unread(self, typed: Iterable[str]) -> Iterator[str]:
        """Yield a message for every typed key that nothing reads, of the first row that says so."""
        rows = [row for row in table()["unread"] if self.holds(row)]
        for key in sorted(key for key in typed if not isinstance(self.value(key), Mapping)):
            for row in [row for row in rows if is_below(key, row["key"].split())][:1]:
                yield self.vformat(f"{key} has no effect here: {row['why']}.", (), {})

    def messages(self, stage: str, section: str = "refused") -> Iterator[str]:
        """Yield the message of every row of a stage that applies."""
        for row in table()[section][stage]:
            if self.holds(row):
                row = {**row, "key": self.vformat(row.get("key", ""), (), {})}
                text = f"{row['why']}. Type {row['type']}." if "type" in row else f"{row['why']}."
                yield self.vformat(text, (), row)


def require_fit(stage: str, settings: Settings, **facts: object) -> None:
    """Refuse settings and parts that do not fit each other.

    Raises:
        ValueError: the first combination of the table that is refused.
    """
    plain, buffer = dict(settings.plain), settings.nodes.get("buffer")
    if settings.algo is not None and buffer is not None:  # a process of several has its share
        plain |= {"algo": {**plain["algo"], **vars(settings.algo)}, "buffer": buffer.kwargs}
    facts |= {"plays_itself": SELF in settings.opponent_weights(training=True)}
    for message in Facts(plain, choices=settings.choices, **facts).messages(stage):
        raise ValueError(message)
