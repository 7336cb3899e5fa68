"""Mutations that no longer apply would be counted as killed by nothing."""

import pytest

from benchmarks.mutants.__main__ import KEPT, ROOT
from benchmarks.mutants.table import MUTATIONS
from rltrain.common.files import get_json

ROOMS = ("algo", "buffer", "hardware", "trainer")


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_applies_once(name):
    mutation = MUTATIONS[name]
    text = (ROOT / "rltrain" / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1
    assert mutation.new not in ("", mutation.old) or mutation.old.startswith("+")
    for path in mutation.paths:
        assert (ROOT / path.partition("::")[0]).exists()


def test_there_are_mutations_of_every_room():
    assert len(MUTATIONS) >= 60
    files = [mutation.file for mutation in MUTATIONS.values()]
    assert all(any(file.startswith(room) for file in files) for room in ROOMS)


def test_the_kept_counts_name_their_commit_and_every_survivor():
    kept = get_json(KEPT)
    assert {"git_commit", "machine", "minutes"} <= set(kept)
    assert kept["mutations"] - kept["killed"] == len(kept["survived"])
    assert kept["killed"] >= 0.9 * kept["mutations"]
