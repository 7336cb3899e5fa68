"""One job of a sweep that continues a run."""

import json
import shutil

import pytest

import rltrain
from rltrain.mode.sweep import job
from tests.conftest import SMALL


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that has finished."""
    folder = tmp_path_factory.mktemp("sweep") / "0_seed-1"
    rltrain.train([*SMALL, "total_env_steps=60", f"hydra.run.dir={folder}"], progress=False)
    return folder


def damage(folder):
    for model in folder.rglob("model.safetensors"):
        model.write_bytes(b"")


def own_class(folder):
    tree = json.loads((folder / "config.json").read_text())
    tree["algo"]["loss"]["_target_"] = "mine.Loss"
    (folder / "config.json").write_text(json.dumps(tree))


def at_work(folder):
    (folder / "run.json").write_text(json.dumps({"status": "running", "process": 1}))


REFUSED = {
    "another process plays it": ("total_env_steps=-1", at_work, 2),
    "a wrong value": ("total_env_steps=-1", lambda folder: None, 2),
    "what a resume cannot change": ("env=cartpole", lambda folder: None, 2),
    "a damaged checkpoint": ("total_env_steps=90", damage, 3),
    "a class that is not trusted": ("total_env_steps=90", own_class, 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_that_is_not_continued_stays_as_it_was(finished, tmp_path, name, capsys):
    """Defect: run.json said that it had failed."""
    override, change, code = REFUSED[name]
    folder = shutil.copytree(finished, tmp_path / "run")
    change(folder)
    before = (folder / "run.json").read_bytes()
    assert job.train(1, [f"resume={folder}", override]) == code
    assert (folder / "run.json").read_bytes() == before
    assert "rltrain: run: " in capsys.readouterr().err
