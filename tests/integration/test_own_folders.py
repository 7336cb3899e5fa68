"""Folders of results: named by date and time, shared by no two commands; nothing is written into
one that is not empty and holds nothing of its kind.
"""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

import rltrain
from rltrain.common import files
from rltrain.errors import UsageError
from rltrain.mode.init import write_project
from rltrain.mode.sweep.run import Local
from tests.conftest import CARTPOLE
from tests.helpers import unchanged
from tests.marks import each_once

FOREIGN = {
    "a text": {"README.md": "my precious notes"},
    "a configuration": {"config.json": '{"mine": 1}'},
    "figures": {"figures/curves.png": "mine", "report.html": "<html>mine</html>"},
    "records": {"run.json": '{"status": "COMPLETED"}', "metrics.jsonl": "{}"},
    "a log": {"train.log": "mine", ".hydra/config.yaml": "mine"},
    "a hidden file": {".gitignore": "*"},
    "an empty folder": {"src/": ""},
    "results": {"results.csv": "a,b", "tables/a.csv": "1"},
    "checkpoints": {"checkpoints/1/model.safetensors": "mine"},
    "numbers": {"1_mine/notes.txt": "mine", "onnx/1/policy.onnx": "mine"},
}
SHORT = "total_env_steps=40"
SLOW = pytest.mark.slow
COMMANDS = {
    "train": (["hydra.run.dir=place"], r"hydra\.run\.dir=|resume="),
    "train here": (["hydra.run.dir=."], r"hydra\.run\.dir=|resume="),
    "sweep": (["-m", "seed=1,2", "hydra.sweep.dir=place"], r"hydra\.sweep\.dir="),
    "report": (["report.dir=place", "runs=../runs", "mode=report"], r"report\.dir="),
    "report here": (["report.dir=.", "runs=../runs", "mode=report"], r"report\.dir="),
    "tune": (["mode=tune", "tune=dqn", "algo=dqn", "tune.dir=place"], r"tune\.dir="),
    "dataset": (["hydra.run.dir=../new", "dataset.write=place"], r"dataset\.write="),
    "import": (
        ["mode=import", "checkpoint=../pymarl", "algo=qmix", "hydra.run.dir=place"],
        r"hydra\.run\.dir=|resume=",
    ),
}


def fill(folder, kind):
    for name, text in FOREIGN[kind].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text(text, encoding="utf-8")


@each_once(kind=FOREIGN, name=COMMANDS)
def test_a_folder_of_something_else_is_refused_and_left_as_it_is(
    command, single, own_folder, monkeypatch, name, kind
):
    if name == "tune":
        pytest.importorskip("optuna")
    words, advice = COMMANDS[name]
    here = own_folder / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    fill(here if name.endswith("here") else here / "place", kind)
    words = words if name.startswith("report") else [*single, *words]
    with unchanged(own_folder), pytest.raises(UsageError, match=advice) as refused:
        command(*words)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_trainer_made_by_hand_refuses_it_too(small, own_folder, kind):
    fill(own_folder / "place", kind)
    said = r"Choose another run_dir|or choose another run_dir"
    with unchanged(own_folder), pytest.raises(UsageError, match=said):
        rltrain.make_trainer(small, run_dir="place").train()


def test_what_a_killed_run_left_before_it_began_is_taken(command, small, trained):
    trained.rename("run")
    kept = {".hydra", "run.json", "train.log", "config.json"}
    for path in Path("run").iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    Path("run/config.json").rename("run/.config.json.123")
    begun = {"status": "running", "process": 123}
    Path("run/run.json").write_text(json.dumps(begun), encoding="utf-8")
    assert command(*small, SHORT, "hydra.run.dir=run") == 0


@pytest.mark.parametrize(
    "name", ["", ".run.json.123", pytest.param(".hydra/config.yaml", marks=SLOW)]
)
def test_a_folder_that_is_as_good_as_empty_is_taken(command, small, own_folder, name):
    path = own_folder / "run" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch() if name else path.mkdir()
    assert command(*small, SHORT, "hydra.run.dir=run") == 0


@pytest.mark.usefixtures("figures_not_drawn")
def test_a_report_is_written_again_in_its_own_folder(command, trained):
    words = ["mode=report", f"runs={trained}", "report.dir=here", "report.resamples=50"]
    assert command(*words) == 0
    Path("here/notes.txt").write_text("mine", encoding="utf-8")
    assert command(*words) == 0
    assert Path("here/notes.txt").read_text(encoding="utf-8") == "mine"


def test_an_export_replaces_no_other(tmp_path):
    trainer = rltrain.make_trainer(CARTPOLE, tmp_path / "run")
    folder = trainer.export(tmp_path / "agent")
    with pytest.raises(UsageError, match=r"already exists and may .* pass replace=True"):
        trainer.export(tmp_path / "agent")
    assert trainer.export(tmp_path / "agent", replace=True) == folder
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        trainer.export(tmp_path / "file")
    with pytest.raises(OSError, match="file"):  # a snapshot beside training: the run continues
        trainer.export(tmp_path / "file", replace=True)
    with pytest.raises(UsageError, match="A checkpoint is full or weights, got 'mine'"):
        trainer.save("mine")


def test_a_project_says_where_it_lies(own_folder):
    assert "make -C 'a/b c' train" in write_project(own_folder / "a/b c", "gymnasium")


@pytest.mark.slow
def test_an_export_does_not_replace_notes_beside_it(command, trained):
    pytest.importorskip("onnxscript")
    words = ["mode=export", f"checkpoint={trained}"]
    assert command(*words) == 0
    assert command(*words) == 0
    (folder,) = (trained / "onnx").iterdir()
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    with unchanged(folder), pytest.raises(UsageError, match="an export replaces its folder"):
        command(*words)


SCRIPTED = ("algo=scripted", "algo.policy=closest", "env=smac", "test.episodes=1")
BATTLES = ("mode=match", "checkpoints=[closest, focus]", "match.battles=2", "env=smac")


@pytest.fixture
def one_second(monkeypatch):
    """Every command starts in the same second."""

    class Clock(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 3, 1, 12, 30, 59)

    monkeypatch.setattr(files, "datetime", Clock)
    monkeypatch.setattr(Local, "run", lambda *_: None)  # the jobs of a sweep


@pytest.mark.usefixtures("figures_not_drawn")
@pytest.mark.parametrize(
    ("group", "words", "others"),
    [
        ("evaluate", ("mode=evaluate", *SCRIPTED), ()),
        ("evaluate", ("mode=evaluate", *SCRIPTED, "record=html"), ()),
        ("match", BATTLES, ("seed=1",)),
        ("multirun", ("-m", "env=two_step", "seed=1,2"), ("log.interval=5",)),
        ("report", ("mode=report", "runs=runs", "report.resamples=20"), ()),
    ],
)
def test_commands_of_one_second_have_their_own_folders(
    command, own_folder, trained, one_second, group, words, others
):
    trained.rename(own_folder / "runs")
    for more in ((), others):
        command(*words, *more)
    found = sorted((own_folder / "outputs" / group).iterdir())
    assert [path.name for path in found] == ["2026-03-01_12-30-59", "2026-03-01_12-30-59-2"]
    assert len({tuple(sorted(file.name for file in path.iterdir())) for path in found}) == 1
    assert any(path.is_file() for path in found[1].iterdir())


def test_of_many_processes_every_one_makes_its_own_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        every = list(pool.map(files.made, [tmp_path / "outputs/new"] * 40))
    assert len(set(every)) == 40
    assert all(re.fullmatch(r"new(-\d+)?", path.name) and path.is_dir() for path in every)
