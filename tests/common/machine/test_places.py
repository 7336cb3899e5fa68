"""Paths that no file system accepts."""

import os

import pytest

from rltrain.common.machine.places import require_possible
from rltrain.errors import UsageError


def test_a_path_that_names_of_files_cannot_be_written_in_is_refused(monkeypatch):
    """Defect: a UnicodeEncodeError, in a locale without UTF-8."""
    require_possible("l\xe4uf e/1", "hydra.run.dir")
    with pytest.raises(UsageError, match=r"hydra\.run\.dir='\\ud800': expected a path of"):
        require_possible("\ud800", "hydra.run.dir")
    monkeypatch.setattr(os, "fsencode", lambda name: str(name).encode("ascii"))
    with pytest.raises(UsageError, match=r"'l\\xe4uf e/1': .* that ascii has.* PYTHONUTF8=1"):
        require_possible("l\xe4uf e/1", "hydra.run.dir")
