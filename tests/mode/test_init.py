"""mode=init: the project that it writes trains and passes its test."""

import os
import signal
import subprocess
import sys

import pytest

from rltrain.common.files import put_text
from rltrain.errors import RltrainError, UsageError
from rltrain.mode import init

FILES = ["Makefile", "corridor.py", "test_corridor.py", "train.yaml"]
OF_TEAM = ["Makefile", "meeting.py", "test_meeting.py", "train.yaml"]


@pytest.mark.parametrize(
    ("words", "files"), [([], FILES), (["env=gymnasium"], FILES), (["env=pettingzoo"], OF_TEAM)]
)
def test_a_project_is_written_into_a_new_folder(words, files, command, own_folder, capfd):
    assert command("mode=init", "init.folder=mine", *words) == 0
    assert sorted(path.name for path in (own_folder / "mine").iterdir()) == files
    assert f"PYTHON ?= {sys.executable}\n" in (own_folder / "mine/Makefile").read_text()
    assert capfd.readouterr().out.endswith("  make -C mine train\n  make -C mine test\n")
    (own_folder / "mine/Makefile").write_text("changed")
    with pytest.raises(UsageError, match="mine is not empty"):
        command("mode=init", "init.folder=mine")
    assert (own_folder / "mine/Makefile").read_text() == "changed"


def test_python_may_be_in_a_folder_of_any_name(own_folder, monkeypatch):
    """Defect: make took the path up to the first space."""
    python = own_folder / "my $x #1 'venv'/python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho ran $*\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    init.write_project(own_folder / "mine", "gymnasium")
    made = subprocess.run(["make", "-C", "mine", "train"], capture_output=True, text=True)
    assert "ran -m rltrain experiment=./train.yaml" in made.stdout


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, "kill -9"])
def test_what_was_begun_is_removed_or_finished_and_the_same_command_works(
    error, command, own_folder, monkeypatch
):
    """Defect: after Ctrl-C or kill -9 the same command refused the files of the first one."""

    def second(path, text):
        if path.name == FILES[1] and error == "kill -9":
            path.with_name(f".{path.name}.{os.getpid()}").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
        if path.name == FILES[1]:
            raise error
        put_text(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(init, "put_text", second)
        if error == "kill -9":
            child = os.fork()
            if child == 0:
                command("mode=init", "init.folder=mine")
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
            assert len(list((own_folder / "mine").iterdir())) == 2
        else:
            with pytest.raises((error, RltrainError)):
                command("mode=init", "init.folder=mine")
    assert command("mode=init", "init.folder=mine") == 0
    assert sorted(path.name for path in (own_folder / "mine").iterdir()) == FILES


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["env=pettingzoo"]], ids=str)
def test_the_project_trains_and_passes_its_test_in_two_commands(words, command, own_folder):
    assert command("mode=init", *words) == 0
    for target in ("train", "test"):
        subprocess.run(["make", "-C", "my_project", target], check=True, capture_output=True)
