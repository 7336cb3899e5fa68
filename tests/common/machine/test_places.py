"""Paths that no file system accepts."""

import os
from pathlib import Path

import pytest

from rltrain.common.machine.places import require_places, require_possible
from rltrain.errors import UsageError


def test_a_path_that_names_of_files_cannot_be_written_in_is_refused(monkeypatch):
    """Defect: a UnicodeEncodeError, in a locale without UTF-8."""
    require_possible("l\xe4uf e/1", "hydra.run.dir")
    with pytest.raises(UsageError, match=r"hydra\.run\.dir='\\ud800': expected a path of"):
        require_possible("\ud800", "hydra.run.dir")
    monkeypatch.setattr(os, "fsencode", lambda name: str(name).encode("ascii"))
    with pytest.raises(UsageError, match=r"'l\\xe4uf e/1': .* that ascii has.* PYTHONUTF8=1"):
        require_possible("l\xe4uf e/1", "hydra.run.dir")


@pytest.mark.parametrize(
    "text",
    [
        *(b"{{bad", b"- a", b"text", b"1: 2", b"a: b: c", b"\xff\xfe", b"[\n" * 1000),
        b"a: !!bool maybe",
    ],
)
def test_settings_of_numba_that_cannot_be_read_are_refused(text):
    """Defect: a traceback of Numba's, whatever was typed."""
    file = Path(".numba_config.yaml")
    file.write_bytes(b"num_threads: 2\n# comment")
    require_places()
    file.write_bytes(text)
    with pytest.raises(UsageError, match=r"^\.numba_config\.yaml in this folder, .*: expected"):
        require_places()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UsageError, match="is a pipe"):
        require_places()
