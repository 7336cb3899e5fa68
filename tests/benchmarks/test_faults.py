"""The faults that are counted in docs/reliability.md, and that the kept counts are whole."""

from __future__ import annotations

import json

import pytest

from benchmarks.faults.__main__ import COUNTS, KINDS
from rltrain.common.files import get_json


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n_cases"),
    [("overrides", None), ("hostile", None), ("corruptions", None), ("kills", 1), ("sweeps", 3)],
)
def test_every_fault_is_answered_as_promised(kind, n_cases, tmp_path):
    wrong = {name: text for name, text in KINDS[kind](tmp_path, 1, n_cases) if text is not None}
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("file", sorted(COUNTS.glob("*.json")), ids=lambda file: file.stem)
def test_kept_counts_name_their_commit_and_every_failure(file):
    kept = get_json(file)
    assert {"seed", "git_commit", "machine"} <= set(kept)
    assert kept["cases"] - kept["passed"] == len(kept["failed"])
