"""Names of other libraries and what to type here: the tables in ``names/``, from which suggestions
are made and the tables of ``docs/from_*.md`` are written (``python docs/tables.py``).

A file holds sections, a section rows, a row up to four columns:

1. their names, separated by blanks;
2. our keys, one for each of theirs or one for all of them; of ``a|b`` the one that is set is taken;
   a mapping says what to type for each value of theirs; empty if there is nothing to set;
3. a note for the documents;
4. how a number of theirs becomes one of ours: ``reciprocal``, or ``share`` of the run's env steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

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
    """Names of another library and what to type for them, see the top of this file."""

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
        """What to type for each value of theirs."""
        return {} if isinstance(self.keys, str) else self.keys

    def target(self, name: str) -> str:
        """What to type for one of their names."""
        names, keys = self.theirs.split(), self.ours.split()
        return keys[names.index(name)] if len(keys) == len(names) else self.ours


@cache
def tables() -> Mapping[str, Mapping[str, tuple[Row, ...]]]:
    """All rows by library and section; read when a name is not one of ours."""
    return {library: _read(file) for library, file in FILES.items()}


def _read(file: str) -> Mapping[str, tuple[Row, ...]]:
    text = (Path(__file__).with_name("names") / f"{file}.yaml").read_text(encoding="utf-8")
    sections = yaml.safe_load(text)
    return {title: tuple(Row(*row) for row in rows) for title, rows in sections.items()}
