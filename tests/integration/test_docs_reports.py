"""The commands of docs/reports.md and docs/tuning.md: each is valid as it stands."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from rltrain.config.compose import compose_single
from rltrain.mode.tune.space import read_space
from tests.pages import read_page

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join(read_page(DOCS / name) for name in ("reports.md", "tuning.md"))
COMMANDS = re.findall(r"^rltrain (mode=.*?)(?:  +#.*)?$", TEXT, re.MULTILINE)
SETTINGS = re.findall(r"`(report\.\w+=[^`…]+)`", TEXT)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_valid(command):
    compose_single(shlex.split(command))


@pytest.mark.parametrize("setting", [s for s in SETTINGS if "FOLDER" not in s])
def test_settings_are_valid(setting):
    compose_single(["mode=report", "runs=outputs", setting])


def test_the_search_space_is_valid():
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert len(read_space(yaml.safe_load(text)["space"])) == 4
