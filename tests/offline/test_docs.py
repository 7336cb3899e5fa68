"""Every command of docs/offline.md names what there is."""

import shlex
from pathlib import Path

import pytest

from rltrain.api import settings_from
from tests.pages import read_page

PAGE = Path(__file__).parents[2] / "docs" / "offline.md"
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in read_page(PAGE).splitlines()
    if line.startswith("rltrain ")
]


def test_the_page_has_commands():
    assert len(COMMANDS) == 6


@pytest.mark.parametrize("overrides", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_is_a_right_one(overrides):
    settings = settings_from([w for w in overrides if not w.startswith("checkpoint=")])
    assert (settings.run.dataset.read is None) != (settings.run.dataset.write is None)
