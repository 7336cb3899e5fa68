"""Ids of PettingZoo environments that cannot be imported."""

import importlib.util
import shlex
import sys

import pytest
from packaging.requirements import Requirement

import rltrain
from rltrain.env.team.make_pettingzoo import find_maker
from rltrain.errors import UsageError


@pytest.mark.parametrize("id", ["", ":Name", ".module:Name"])
def test_an_id_without_a_module_is_refused_with_what_is_expected(id):
    said = rf"env\.id={id} cannot be created: .*Expected an installed"
    with pytest.raises(ValueError, match=said):
        find_maker(id)


def test_a_module_that_fails_is_named_with_its_error(tmp_path):
    (tmp_path / "broken_team.py").write_text("boats = 1 / 0\n")
    said = r"broken_team:Boats cannot be created: ZeroDivisionError: d"
    with pytest.raises(ValueError, match=said):
        find_maker("broken_team:Boats")


LIBRARY = "pettingzoo.butterfly.pistonball_v6"


@pytest.mark.parametrize(
    ("overrides", "lacks"),
    [
        (["env=mpe"], "mpe2"),
        (["env=lbf"], "lbforaging"),
        (["env=rware"], "rware"),
        (["env=magent"], "magent2"),
        (["env=pettingzoo", f"env.id={LIBRARY}"], "pygame"),
        (["env=pettingzoo", f"env.id={LIBRARY}", "env.kwargs={n_pistons: 4}"], "pygame"),
    ],
)
def test_a_missing_package_is_named_with_a_line_to_paste(overrides, lacks, monkeypatch):
    """Defect: keywords that a choice passes on followed the command, or it was not named."""
    found = importlib.util.find_spec
    blocked = lambda name, *of: None if name == lacks else found(name, *of)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", blocked)
    for name in [lacks, *(name for name in sys.modules if name.startswith(LIBRARY[:-3]))]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, lacks, None)
    with pytest.raises(UsageError, match=f"needs {lacks}, which is not installed") as refused:
        rltrain.make_trainer(["algo=vdn", *overrides])
    line = str(refused.value).partition("installed: ")[2]
    assert shlex.split(line)[:4] == [sys.executable, "-m", "pip", "install"]
    assert all(Requirement(text) for text in shlex.split(line)[4:])
