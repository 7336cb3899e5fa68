"""Commands that install what is missing into the Python that runs."""

import importlib.metadata
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.common.machine import install
from rltrain.common.machine.install import install_command, install_extra, requirements

REPOSITORY = Path(__file__).parents[3]


def test_command_is_of_this_python_and_can_be_pasted():
    command = install_command("MinAtar>=1.0.15")
    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", "MinAtar>=1.0.15"]
    assert command.endswith("'MinAtar>=1.0.15'")


@pytest.mark.slow
def test_a_pasted_command_is_of_pip():
    command = install_command("MinAtar>=1.0.15")
    asked = subprocess.run(f"{command} --help", shell=True, capture_output=True, check=True)
    assert b"pip install" in asked.stdout


def test_requirements_are_those_of_the_project():
    found = requirements()
    assert ("hydra-joblib-launcher>=1.2", "joblib") in found
    assert any(name.startswith("torch") and extra == "" for name, extra in found)


def test_requirements_of_an_installed_wheel_come_from_its_metadata(monkeypatch, tmp_path):
    lines = ["numpy>=2.0", "no-such>=2; extra == 'envs'"]
    monkeypatch.setattr(install, "__file__", str(tmp_path / "a/b/c/d.py"))
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: lines)
    assert requirements() == [("numpy>=2.0", ""), ("no-such>=2", "envs")]


def test_extra_names_the_packages_that_are_not_there(monkeypatch):
    lines = [("numpy>=2.0", "envs"), ("no-such>=2", "envs"), ("other>=1", "more")]
    monkeypatch.setattr(install, "requirements", lambda: lines)
    assert install_extra("envs") == install_command("no-such>=2")


def test_two_distributions_of_one_module_are_never_installed_together(monkeypatch):
    monkeypatch.setattr(install, "requirements", lambda: [("pygame-ce>=2", "x"), ("no-such", "x")])
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda name: name == "pygame" or None)
    assert install_extra("x") == install_command("no-such")


@pytest.mark.parametrize("folder", ["rltrain", "conf"])
def test_no_message_names_a_bare_pip_or_our_name_on_an_index(folder):
    for file in (REPOSITORY / folder).rglob("*.*"):
        if file.suffix in (".py", ".yaml") and file.name != "install.py":
            text = file.read_text(encoding="utf-8").replace("``pip install smac``", "")
            text = text.replace('``pip install "gymnasium[box2d]"``', "")
            assert "pip install" not in text, file
            assert "rltrain[" not in text, file
