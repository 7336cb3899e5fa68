"""Names of other libraries and what to type here: the tables in ``names/``, which are read when a
name is not one of ours. ``python docs/tables.py`` writes the tables of ``docs/from_*.md``.

The file of a library holds sections, a section rows, a row up to four columns:

1. their names, separated by spaces;
2. our keys, one for each of theirs or one for all of them; of ``a|b`` the one that is set is taken;
   a mapping says what to type for each value of theirs, ``*`` being any; empty if there is
   nothing to set;
3. a note for the documents;
4. how a number of theirs becomes one of ours: ``reciprocal``, ``share`` of the run's env steps, or
   ``tau``: below 1 a share that the target network moves at every update, ``layers`` of that many
   units, two of them, ``range`` of that many seeds, the mean ``return`` that ends a run,
   the ``decay`` by a factor at each step, or
   hours of a number of ``hours``, ``minutes`` or ``seconds``, of a ``time`` only with its unit;
   several words are a remark. Of a mapping the key that stays as it is where it has a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from rltrain.common.files import JsonObject

EVALUATE = "mode=evaluate checkpoint=latest"
FILES = {
    "PyMARL": "pymarl",
    "RLlib": "rllib",
    "Stable-Baselines3": "stable_baselines3",
    "CleanRL": "cleanrl",
    "": "others",
}
"""The file of each library; a name is looked up in this order."""


class Row(NamedTuple):
    """Names of another library and what to type for them, see the top of this file; of names that
    are not choices of a group, the note says why it is not the same.
    """

    theirs: str
    keys: str | Mapping[str, str] = ""
    note: str = ""
    convert: str = ""

    @property
    def ours(self) -> str:
        """Our keys."""
        return self.keys if isinstance(self.keys, str) else ""

    @property
    def values(self) -> Mapping[str, str]:
        """Overrides by value of theirs."""
        return {} if isinstance(self.keys, str) else self.keys

    def target(self, name: str) -> str:
        """Return the key, or keys, for one of their names."""
        names, keys = self.theirs.split(), self.ours.split()
        return keys[names.index(name)] if len(keys) == len(names) else self.ours


@cache
def tables() -> Mapping[str, Mapping[str, tuple[Row, ...]]]:
    """All rows by library and section."""
    return {
        library: {title: tuple(Row(*row) for row in rows) for title, rows in _read(file).items()}
        for library, file in FILES.items()
    }


@cache
def names_of_settings() -> frozenset[str]:
    """All names of their settings, and those of ours that most of them share."""
    sections = [rows for library in tables().values() for rows in library.values()]
    return frozenset({"seed", *(n for rows in sections for r in rows for n in r.theirs.split())})


@cache
def choice_aliases() -> Mapping[str, tuple[Row, ...]]:
    """Read the choices that stand for names which a group does not have, by group, and those for
    ``ids`` of environments, which are regular expressions.
    """
    groups = _read("choices")
    del groups["reasons"]  # repeated below by their YAML anchors
    return {group: tuple(Row(*row) for row in rows) for group, rows in groups.items()}


@cache
def commands() -> Mapping[str, Mapping[str, str]]:
    """Read ``words`` of other programs and what they mean here, ``absent`` ones and what there is
    instead, and the keys that ``flags`` and ``names`` stand for.
    """
    return {
        part: {word: ours for ours, names in rows.items() for word in names.split()}
        for part, rows in _read("commands").items()
    }


@cache
def value_aliases() -> Mapping[str, Mapping[str, str]]:
    """Values that an enumeration does not have and what they mean, by key."""
    return {
        key: {
            theirs: ours.replace("*", theirs)
            for ours, names in values.items()
            for theirs in names.split()
        }
        for key, values in _read("values").items()
    }


def _read(file: str) -> JsonObject:
    path = Path(__file__).with_name("names") / f"{file}.yaml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))
