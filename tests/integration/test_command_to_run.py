"""docs/command_to_run.md names the files through which overrides and resumed runs really pass."""

import re
import sys
from pathlib import Path

import pytest

import rltrain
from rltrain.hardware.rollout import Rollout
from rltrain.main import run

PACKAGE = Path(rltrain.__file__).parent
PAGE = (PACKAGE.parent / "docs/command_to_run.md").read_text(encoding="utf-8")
OVERRIDE, RESUME = (re.findall(r"^\| `(.+?\.py)`", half, re.M) for half in PAGE.split("\n## ")[1:])


def entered(overrides):
    """The files of which functions are called before the first step, in order."""
    files = {}

    def note(frame, event, argument):
        code = frame.f_code
        if code is Rollout.collect.__code__:
            sys.setprofile(None)
        elif event == "call" and str(PACKAGE) in code.co_filename and code.co_qualname[0] != "<":
            files.setdefault(str(Path(code.co_filename).relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        assert run(overrides) == 0
    finally:
        sys.setprofile(None)
    return list(files)


def test_an_override_passes_the_files_that_the_page_lists(small, own_folder):
    seen = entered([*small, "total_env_steps=20", "algo.loss.gamma=0.9"])
    assert [file for file in OVERRIDE if file not in seen] == []
    assert len(OVERRIDE) - 2 <= 8  # between the command and the constructor


@pytest.mark.slow
def test_a_resumed_run_passes_the_files_that_the_page_lists(trained):
    seen = entered([f"resume={trained}", "total_env_steps=200"])
    assert [file for file in RESUME if file not in seen] == []
    assert len(RESUME) <= 14
