"""mode=list: everything in conf/, with what it needs."""

import pytest
from packaging.requirements import Requirement

from rltrain.common.machine.install import requirements
from rltrain.config.catalog import SHIPPED
from rltrain.mode import list as room
from rltrain.mode.list import GROUPS, NEEDS, lines, listing, shortened
from tests.imports import imported


@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_choice_has_one_line(width):
    sections = listing(SHIPPED, width).split("\n\n")
    for group, section in zip(GROUPS, sections, strict=False):
        title, *shown = section.splitlines()
        assert title.endswith(f"{group}=NAME")
        assert [line.split()[0] for line in shown] == SHIPPED.options(group)
        assert all(len(line.split()) > 2 and len(line) <= max(width, 100) for line in shown)


def test_what_a_choice_needs_is_in_one_of_the_extras():
    extras = {Requirement(needed).name: extra for needed, extra in requirements() if extra}
    for group in GROUPS:
        for option in SHIPPED.options(group):
            found = NEEDS.search(" ".join(SHIPPED.file(group, option).about))
            assert found is None or found[1] in extras, option
    needing = {line.name: line.extra for line in lines("env", SHIPPED) if line.extra}
    marl = dict.fromkeys(("lbf", "magent", "mpe", "rware"), "marl")
    assert needing == {**marl, "atari": "atari", "lunarlander": "box2d", "minatar": "minatar"}
    needing = {line.name: line.extra for line in lines("logger", SHIPPED) if line.extra}
    assert needing == {"tensorboard": "tensorboard", "trackio": "trackio"}


def test_what_is_not_installed_is_said_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(room, "is_installed", lambda name: name != "ale-py")
    shown = listing(SHIPPED, 120)
    (line,) = [line for line in shown.splitlines() if line.startswith("  atari ")]
    assert line.endswith("extra atari, not installed")
    assert shown.count("not installed") == 2  # the line, and the heading of the commands
    assert "\n  atari: " in shown
    assert "pip install" in shown
    assert "ale-py" in shown


def test_a_description_that_is_cut_keeps_its_paper():
    about = "A very long description of a method (Rashid et al., 2018)"
    assert shortened(about, 45) == "A very long … (Rashid et al., 2018)"
    assert shortened(about, 100) == about
    assert shortened("one two three", 9) == "one two …"


@pytest.mark.slow
def test_the_answer_imports_neither_torch_nor_hydra():
    code = "from rltrain.main import run; run(['mode=list'])"
    assert imported(code, "torch", "hydra", "numpy", "pydantic") == []


def test_one_s_own_folder_is_listed(command, own_folder, capsys):
    (own_folder / "myconf/experiment").mkdir(parents=True)
    (own_folder / "myconf/experiment/mine.yaml").write_text("# @package _global_\n# My preset.\n")
    assert command("mode=list", "--config-dir=myconf") == 0
    assert "  mine " in capsys.readouterr().out
