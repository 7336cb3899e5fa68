"""One job of a sweep: one that continues a run, and one that another launcher runs."""

import multiprocessing
import os
import shutil
import signal
from contextlib import nullcontext

import pytest

import rltrain
from benchmarks.faults.runs import digests
from rltrain.callback import Callback
from rltrain.config.compose import compose_checked
from rltrain.mode.run_folder import run_lock
from rltrain.mode.sweep import job
from tests.conftest import SMALL
from tests.helpers import changed_json, json_lines, put_record, record_of


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
    with changed_json(folder / "config.json") as tree:
        tree["algo"]["loss"]["_target_"] = "mine.Loss"


def at_work(folder):
    put_record(folder, status="running", process=1)


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
    with run_lock(folder) if change is at_work else nullcontext():
        assert job.train(1, [f"resume={folder}", override]) == code
    assert (folder / "run.json").read_bytes() == before
    assert "rltrain: run: " in capsys.readouterr().err


class Ends(Callback):
    """Ends the first process of a run in another way than at its last step."""

    def __init__(self, how):
        self.how = how

    def on_iteration(self, trainer, value=None):
        if record_of(trainer.run_dir)["resumes"] or trainer.clock.env_steps < 30:
            return
        if self.how == "raises":
            raise ZeroDivisionError("on purpose")
        os.kill(os.getpid(), signal.Signals[self.how])


def launched(folder, *overrides):
    """As a launcher of Hydra calls it, which has made the folder."""
    (folder / ".hydra").mkdir(parents=True, exist_ok=True)
    (folder / ".hydra/config.yaml").touch()
    settings = compose_checked([*SMALL, "total_env_steps=60", *overrides]).settings()
    job.run_in_process(settings, folder, n_jobs=2)


def outcome(folder):
    return tuple(record_of(folder).get(key) for key in ("status", "exit_code", "resumes"))


def test_a_job_of_another_launcher_that_has_finished_is_left_alone(own_folder):
    launched(own_folder / "0")
    assert outcome(own_folder / "0") == ("finished", 0, [])
    before = digests(own_folder / "0")
    launched(own_folder / "0")
    assert digests(own_folder / "0") == before


@pytest.mark.parametrize(
    ("how", "begun"),
    [
        ("raises", ("failed", 1, [])),
        ("SIGTERM", ("interrupted", 143, [])),
        pytest.param("SIGKILL", ("running", None, []), marks=pytest.mark.slow),
    ],
)
def test_a_job_of_another_launcher_continues_where_it_ended(own_folder, how, begun):
    """An exception is recorded and ends this job alone, a signal the launcher too."""
    folder = own_folder / "0"
    ends = f"callbacks=[{{_target_: {__name__}.Ends, how: {how}}}]"
    if how == "SIGKILL":
        spawn = multiprocessing.get_context("spawn")
        child = spawn.Process(target=launched, args=(folder, ends))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    elif how == "SIGTERM":
        with pytest.raises(KeyboardInterrupt):
            launched(folder, ends)
    else:
        launched(folder, ends)
    assert outcome(folder) == begun
    launched(folder, ends)
    status, code, resumes = outcome(folder)
    assert (status, code, len(resumes)) == ("finished", 0, 1)
    steps = [row["env_steps"] for row in json_lines(folder / "metrics.jsonl")]
    assert steps == sorted(steps)


def test_a_job_of_another_launcher_that_cannot_begin_is_recorded(own_folder, capsys):
    launched(own_folder / "0", "checkpoint=nowhere")
    assert outcome(own_folder / "0") == ("failed", 3, None)
    assert "rltrain: 0: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["note.txt", "train.log", None])
def test_a_folder_of_other_files_stays_as_it_was(own_folder, capfd, name):
    """Defect: the failure was recorded there, and the next command trained among those files."""
    place = own_folder / "0_seed-1"
    file = place if name is None else place / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    overrides = [*SMALL, "total_env_steps=60", f"hydra.run.dir={place}"]
    for _ in range(2):
        assert job.train(2, overrides) == 2
    assert [path for path in own_folder.rglob("*") if path.is_file()] == [file]
    assert file.read_text() == "mine"
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("Move it away, or type hydra.sweep.dir=FOLDER" in line for line in lines)
