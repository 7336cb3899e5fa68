"""Errors that fail a trial or end the search, and edited files of the configuration."""

import errno
import json
import multiprocessing
import os
import shlex
import signal

import pytest

pytest.importorskip("optuna")

from optuna.trial import create_trial

import rltrain.mode.tune.trials as worker
from rltrain import errors
from rltrain.common.files import locked
from rltrain.config.command_line import read
from rltrain.config.compose import compose_checked
from rltrain.logger.screen import Screen
from rltrain.main import list_jobs, run
from rltrain.mode.train import Result
from rltrain.mode.tune import command
from rltrain.mode.tune.study import next_trial, open_study, trial_dir
from tests.mode.tune.test_study import run_settings

CONTINUED = {
    "StorageError": errors.StorageError("full"),
    "FullDiskError": errors.FullDiskError("full"),
    "FolderError": errors.FolderError("is already running"),
    "OSError": OSError(errno.EFBIG, "File too large"),
    "CheckpointError, interrupted": errors.CheckpointError("damaged"),
}
FAILED = {
    "CheckpointError": errors.CheckpointError("weights of another network"),
    "UsageError": errors.UsageError("wrong"),
    "DivergedError": errors.DivergedError("diverged"),
    "EnvError": errors.EnvError("broken"),
    "RuntimeError": RuntimeError("mine"),
    "MemoryError": MemoryError(),
}


def study_of(folder, *overrides):
    base = ("algo=dqn", "env=cartpole", *overrides)
    run = run_settings(*overrides)
    return worker.StudySetup(folder, base, (), run, worker.config_digest(base))


def run_trial(job, *, interrupted=False):
    """Run the next trial; returns how it stands and its error."""
    study = open_study(job.folder, job.run)
    study.add_trial(create_trial(value=1.0))  # a failed one is not the first result
    trial, lock = next_trial(study, job.folder, job.run)
    if interrupted:
        (trial_dir(job.folder, trial.number) / "checkpoints").mkdir(parents=True, exist_ok=True)
    raised = None
    try:
        worker.run_trial(job, study, trial, Screen())
    except Exception as error:
        raised = error
    finally:
        os.close(lock)
    ended = study.get_trials()[trial.number]
    return ended.state.name, ended.user_attrs.get("error"), raised


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("name", [*CONTINUED, *FAILED])
def test_only_errors_of_its_values_fail_a_trial(tmp_path, monkeypatch, name, begun):
    """Defects: a full disk failed every trial that was left, some with the error None."""
    error = {**CONTINUED, **FAILED}[name]

    def train(settings, run_dir, **_):
        if not begun and isinstance(error, errors.RltrainError):
            raise error
        return Result(run_dir, exit_code=errors.find_exit_code(error), error=error)

    monkeypatch.setattr(worker, "run_training", train)
    state, text, raised = run_trial(study_of(tmp_path), interrupted="interrupted" in name)
    if name in CONTINUED:
        assert (state, raised) == ("RUNNING", error)
    else:
        assert (state, raised) == ("FAIL", None)
        assert text != "None"
        assert str(error) in text


def test_a_trial_that_another_command_runs_is_left_to_it(tmp_path):
    run_dir = trial_dir(tmp_path, 1)
    run_dir.mkdir(parents=True)
    with locked(run_dir):
        state, _, raised = run_trial(study_of(tmp_path), interrupted=True)
    assert state == "RUNNING"
    assert isinstance(raised, errors.FolderError)
    assert "is already running" in str(raised)


def test_the_run_of_another_trial_is_refused_by_name(tmp_path, monkeypatch):
    """Defect: a trial whose folder held a copy of another one got the score of that."""
    monkeypatch.setattr(worker, "suggest", lambda *_: ["algo.optimizer.lr=0.001", "seed=7"])
    trained = []

    def train(settings, run_dir, **_):
        trained.append(1)
        return Result(run_dir, exit_code=130)

    monkeypatch.setattr(worker, "run_training", train)
    job = study_of(tmp_path)
    for lr, refused in ((0.001, False), (0.01, True)):
        words = [*job.overrides, f"algo.optimizer.lr={lr}", "seed=7"]
        record = compose_checked(words).settings().record
        run_dir = trial_dir(tmp_path, 1)
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / "config.json").write_text(json.dumps(record))
        state, _, raised = run_trial(job, interrupted=not refused)
        assert (state, "trials/0001 holds another run" in str(raised)) == ("RUNNING", refused)
        assert ("algo.optimizer.lr=0.01" in str(raised)) == refused
    assert trained == [1]


def test_a_trial_whose_processes_are_killed_fails_after_the_third(tmp_path, monkeypatch, capfd):
    """Defect: it was begun again without limit. Processes that end by themselves do not count."""

    def end(job, study, trial, screen):
        if trial.number == 1:
            study.tell(trial, 1.0)
        elif ending == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        elif ending == "error":
            raise errors.StorageError("full")
        return 0 if trial.number == 1 else 130

    monkeypatch.setattr(worker, "run_trial", end)
    job = study_of(tmp_path, "tune.trials=2")
    for ending in ("SIGKILL", "interrupted", "SIGKILL", "error", "SIGKILL", "interrupted"):
        process = multiprocessing.get_context("fork").Process(target=worker.work, args=(job,))
        process.start()
        process.join()
        assert (process.exitcode == -signal.SIGKILL) == (ending == "SIGKILL")
        states = [t.state.name for t in open_study(tmp_path, job.run).get_trials()]
    assert states == ["FAIL", "COMPLETE"]
    assert "trial 0 failed: 3 of its processes were killed" in capfd.readouterr().out


@pytest.mark.parametrize(("work", "code"), [(lambda job: os._exit(0), 1), (lambda job: 0, 0)])
def test_a_process_that_exits_with_0_in_its_trial_is_named(
    tmp_path, monkeypatch, capfd, work, code
):
    """Defect: the search ended with 0."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: fork)
    monkeypatch.setattr(command, "work", work)
    assert command.start(study_of(tmp_path), 2) == code
    assert ("A process exited with 0" in capfd.readouterr().err) == bool(code)


def test_a_pruner_knows_the_length_of_its_trial(tmp_path, monkeypatch):
    """Defect: a trial with a searched total_env_steps was pruned in its first fifth."""
    found = []

    def train(settings, run_dir, callbacks, **_):
        found.append(callbacks[0].trial.study.pruner._n_warmup_steps)
        return Result(run_dir, exit_code=130)

    monkeypatch.setattr(worker, "run_training", train)
    for suggested in ([], ["total_env_steps=50_000"]):
        monkeypatch.setattr(worker, "suggest", lambda *_, suggested=suggested: suggested)
        run_trial(study_of(tmp_path, "total_env_steps=5000"))
    assert found == [1_000, 10_000]


def test_of_an_algorithm_of_ones_own_the_command_is_printed(own_folder, monkeypatch, capsys):
    """Defect: after all trials the search ended with an error in place of its results."""

    def train(job, study, trial, screen):
        worker.suggest(study, trial, job.space, job.run)
        study.tell(trial, 1.0)
        return 0

    monkeypatch.setattr(worker, "run_trial", train)
    (own_folder / "my conf/algo").mkdir(parents=True)
    own = own_folder / "my conf/algo/mine.yaml"
    own.write_text("defaults:\n  - dqn\n", encoding="utf-8")
    words = ["--config-dir=my conf", "algo=mine", "env=cartpole", "seed=7"]
    assert run(["mode=tune", *words, SPACE, "tune.dir=study", "tune.trials=1"]) == 0
    printed = capsys.readouterr().out
    assert "best.yaml is not written: The algorithm or the environment is not one that" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("  rltrain -m "))
    jobs = list_jobs(read(shlex.split(line)[1:]))
    assert len(jobs) == 5
    for job in jobs.values():
        settings = compose_checked(job).settings()
        assert settings.choices["algo"] == "mine"
        assert settings.algo.batch_size in (8, 9)


PRESET = "# @package _global_\ndefaults:\n  - override /algo: dqn\n  - override /env: cartpole\n"
SPACE = "tune.space=[{key: algo.batch_size, low: 8, high: 9}]"


@pytest.mark.parametrize(
    ("of", "moment"),
    [
        *(("experiment", moment) for moment in ("between", "meanwhile", "after")),
        ("--config-dir", "between"),
    ],
)
def test_edited_files_of_the_configuration_are_refused(own_folder, monkeypatch, of, moment):
    """Defect: new trials ran with the new values, which were also claimed for old ones."""
    path = own_folder / ("e.yaml" if of == "experiment" else "mine/experiment/e.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["experiment=e.yaml"] if of == "experiment" else ["--config-dir=mine", "experiment=e"]
    words = ["mode=tune", *words, SPACE, "tune.dir=study", "tune.trials=2"]

    def write(value, trials=5):
        tune = f"tune:\n  trials: {trials}\n"
        path.write_text(f"{PRESET}algo:\n  loss:\n    gamma: {value}\n{tune}", encoding="utf-8")
        os.utime(path, ns=(0, len(begun) + trials))

    def train(job, study, trial, screen):
        begun.append(trial.number)
        worker.suggest(study, trial, job.space, job.run)
        study.tell(trial, 1.0)
        if moment == "meanwhile" or (moment == "after" and len(begun) == 2):
            write(0.5)
        return 0

    begun = []
    write(0.9)
    monkeypatch.setattr(worker, "run_trial", train)
    if moment == "between":
        assert run([*words[:-1], "tune.trials=1"]) == 0
        write(0.9, trials=7)
        assert run([*words[:-1], "tune.trials=2"]) == 0  # may change
        write(0.5)
    said = r"other settings: files of the .* tune\.dir=FOLDER"
    with pytest.raises(errors.UsageError, match=said):
        run(words)
    assert begun == {"between": [0, 1], "meanwhile": [0], "after": [0, 1]}[moment]
