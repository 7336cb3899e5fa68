"""The mutations of ``mutations.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """One change."""

    file: str  # below rltrain
    old: str  # occurs once
    new: str
    tests: str  # short names of tests that must detect it, separated by spaces

    @property
    def paths(self) -> list[str]:
        return [TESTS[name] for name in self.tests.split()]


_read = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text(encoding="utf-8"))
TESTS: dict[str, str] = _read["tests"]
MUTATIONS = {name: Mutation(*values) for name, values in _read["mutations"].items()}
