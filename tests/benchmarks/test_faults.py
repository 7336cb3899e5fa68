"""The faults that are counted in docs/reliability.md: the kept counts are whole, and functions that
benchmarks name as text exist.
"""

import json
import re
from pkgutil import resolve_name

import pytest

from benchmarks.faults import __main__ as command
from benchmarks.faults import determinism
from benchmarks.faults.__main__ import COUNTS, KINDS
from rltrain.common.files import get_json
from rltrain.config.catalog import CONF
from rltrain.logger import curve
from tests.pages import ROOT


@pytest.fixture(autouse=True)
def curves_drawn_again(monkeypatch):
    """Kinds that make runs in this process switch the drawing of curves off."""
    monkeypatch.setattr(curve, "make_figure", curve.make_figure)


ALL = dict.fromkeys(("overrides", "lines", "hostile", "foreign", "misplaced", "corruptions"))
FEW = {"kills": 1, "sweeps": 3, "determinism": 3}
CASES = [pytest.param(kind, 1, n, marks=pytest.mark.slow) for kind, n in {**ALL, **FEW}.items()]
SAMPLE = [("lines", 2, 12), ("foreign", 1, 1), ("misplaced", 1, 1)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "seed", "n_cases"), [*CASES, *SAMPLE])
def test_every_fault_is_answered_as_promised(kind, seed, n_cases, tmp_path):
    wrong = {name: text for name, text in KINDS[kind](tmp_path, seed, n_cases) if text is not None}
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("file", sorted(COUNTS.glob("*.json")), ids=lambda file: file.stem)
def test_kept_counts_name_their_commit_and_every_failure(file):
    kept = get_json(file)
    assert {"seed", "git_commit", "machine"} <= set(kept)
    assert kept["cases"] - kept["passed"] == len(kept["failed"])


@pytest.mark.parametrize(
    ("typed", "before", "after"),
    [([], None, 5), ([], 9, 5), (["3"], None, None), (["3"], 5, 5), (["3"], 3, 3), (["7"], 5, 7)],
)
def test_fewer_cases_than_were_counted_leave_the_kept_counts(
    typed, before, after, tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "COUNTS", tmp_path)
    drawn = lambda folder, seed, n: ((str(i), None) for i in range(n or 5))  # noqa: E731
    monkeypatch.setitem(KINDS, "lines", drawn)
    file = tmp_path / "lines.json"
    if before is not None:
        file.write_text(f'{{"cases": {before}}}')
    monkeypatch.setattr("sys.argv", ["", "lines", *(f"--cases={n}" for n in typed)])
    assert command.main() == 0
    assert (get_json(file)["cases"] if file.exists() else None) == after


def test_make_soak_makes_every_kind_of_fault():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (listed,) = (line for line in makefile.splitlines() if line.startswith("FAULTS := "))
    assert sorted(listed.removeprefix("FAULTS := ").split()) == sorted(KINDS)


def test_every_environment_and_algorithm_is_tried_twice():
    names = {
        group: {path.stem for path in (CONF / group).glob("*.yaml")} for group in ("algo", "env")
    }
    assert {"env": set(determinism.ENVS), "algo": {*determinism.ALGOS, "scripted"}} == names


SOURCES = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks").rglob("*.py"))
NAMED = sorted(set(re.findall(r'"(rltrain[\w.]*:[\w.]+)"', SOURCES)))


@pytest.mark.parametrize("name", NAMED)
def test_functions_that_are_named_are_there(name):
    """Defect: a run was to be interrupted in one that had moved, and failed instead."""
    assert callable(resolve_name(name))
