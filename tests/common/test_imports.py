"""Modules of the current folder are found while a typed name is resolved, and never otherwise."""

import importlib
import sys

import pytest

from rltrain.common.imports import beside_user


@pytest.fixture
def own_module(own_folder, monkeypatch):
    """A module in the current folder, which is not on the import path."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(own_folder))])
    (own_folder / "lying_here.py").write_text("VALUE = 3\n")
    (own_folder / "json.py").write_text("raise RuntimeError('hid a module of Python')\n")
    yield own_folder
    sys.modules.pop("lying_here", None)


def test_a_module_beside_the_user_is_found_only_meanwhile(own_module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lying_here")
    with beside_user("lying_here.Class"):
        assert sys.path[-1] == str(own_module)
        assert importlib.import_module("lying_here").VALUE == 3
    assert str(own_module) not in sys.path


def test_it_hides_nothing_that_is_installed(own_module, monkeypatch):
    monkeypatch.delitem(sys.modules, "json")
    with beside_user("json"):
        assert importlib.import_module("json").dumps(1) == "1"


def test_an_installed_package_finds_nothing_beside_the_user(own_module):
    for module in ("json", "sys", "numpy.linalg", "rltrain.buffer"):
        with beside_user(module), pytest.raises(ModuleNotFoundError):
            importlib.import_module("lying_here")


def test_a_package_here_hides_a_folder_of_its_name_elsewhere(own_module, monkeypatch):
    (own_module / "installed" / "examples").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(own_module / "installed")])
    (own_module / "examples.py").write_text("VALUE = 4")
    monkeypatch.delitem(sys.modules, "examples", raising=False)
    with beside_user("examples"):
        assert importlib.import_module("examples").VALUE == 4


def test_a_path_that_holds_the_folder_already_stays_as_it_is(own_module, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(own_module), *sys.path])
    before = list(sys.path)
    with beside_user("lying_here"):
        assert sys.path == before
    assert sys.path == before
