"""Functions that benchmarks name as text exist."""

import re
from pkgutil import resolve_name

import pytest

from tests.test_floors import PACKAGE

FOLDER = PACKAGE.parent / "benchmarks"
NAMED = sorted(
    {
        name
        for path in FOLDER.rglob("*.py")
        for name in re.findall(r'"(rltrain[\w.]*:[\w.]+)"', path.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("name", NAMED)
def test_functions_that_are_named_are_there(name):
    """Defect: a run was to be interrupted in one that had moved, and failed instead."""
    assert callable(resolve_name(name))
