"""Searches as commands: interrupted and continued, refused, and signals to the first process of one
with several.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

pytest.importorskip("optuna")

import rltrain.mode.tune.command as command_file
import rltrain.mode.tune.trials as worker
from rltrain.common.files import require_empty
from rltrain.errors import UsageError
from rltrain.main import run
from rltrain.mode.tune.command import begin
from tests.marks import slow_except
from tests.mode.tune.test_trials import study_of

TINY = [
    *("mode=tune", "algo=dqn", "env=cartpole", "total_env_steps=300", "test.interval=100"),
    *("test.episodes=2", "test.n_envs=2", "algo.learning_starts=50", "hardware.threads=1"),
    *("logger.wandb.mode=disabled", "tune.dir=study"),
]


def trials():
    with open("study/trials.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_study_is_interrupted_and_continued_without_losing_a_trial(tmp_path, monkeypatch, capsys):
    begun = []

    def cut(*args, **kwargs):
        begun.append(args)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return trained(*args, **kwargs)

    trained = worker.run_training
    monkeypatch.setattr(worker, "run_training", cut)
    with pytest.raises(KeyboardInterrupt):
        run([*TINY, "tune.trials=4"])
    monkeypatch.setattr(worker, "run_training", trained)
    assert run([*TINY, "tune.trials=4"]) == 0
    printed = capsys.readouterr().out
    assert "continues after 3 trials" in printed
    rows = trials()
    assert [row["trial"] for row in rows] == ["0", "1", "2", "3"]
    assert {row["state"] for row in rows} <= {"complete", "pruned"}
    best = max((row for row in rows if row["state"] == "complete"), key=lambda r: float(r["score"]))
    assert f"Best: trial {best['trial']}" in printed
    made = json.loads((tmp_path / f"study/trials/000{best['trial']}/config.json").read_text())
    assert str(made["algo"]["optimizer"]["lr"]) == best["algo.optimizer.lr"]
    assert (tmp_path / "study/history.png").stat().st_size > 1000
    assert run(["experiment=study/best.yaml", *TINY[3:-1], "hydra.run.dir=again"]) == 0
    assert json.loads((tmp_path / "again/config.json").read_text())["algo"] == made["algo"]


@pytest.mark.slow
def test_two_processes_share_a_study(tmp_path, capfd):
    assert run([*TINY, "tune.trials=3", "tune.jobs=2", "tune.pruner=none"]) == 0
    assert [row["state"] for row in trials()] == ["complete"] * 3
    assert len({row["algo.optimizer.lr"] for row in trials()}) == 3


class Trial:
    """Pruned after its third test; the one at 100 was reported by a process before this one."""

    number, reported = 0, ((1.0, 100),)

    class study:
        @staticmethod
        def get_trials(deepcopy):
            return [type("Frozen", (), {"intermediate_values": {100: 1.0}})]

    def report(self, value, step):
        self.reported += ((value, step),)

    def should_prune(self):
        return len(self.reported) == 3


class Trainer:
    stopped = ()

    def __init__(self, env_steps=0):
        self.clock, self.tests = SimpleNamespace(env_steps=env_steps), self

    def stop(self, why):
        self.stopped += (why,)


def test_a_trial_is_pruned_by_its_tests():
    trial, trainer = Trial(), Trainer()
    callback = worker.ReportTests(trial, "auto")
    for step, value in ((100, 1.0), (200, 2.0), (300, float("nan")), (400, 3.0), (500, 4.0)):
        trainer.clock.env_steps = step
        callback.on_test_end(trainer, {"test/return_mean": value})
    assert trial.reported == ((1.0, 100), (2.0, 200), (3.0, 400), (4.0, 500))  # 100 was known
    assert len(trainer.stopped) == 1


@pytest.mark.parametrize("event", ["on_train_start", "on_test_end"])
def test_a_trial_that_was_killed_before_it_was_pruned_is_pruned(event):
    """Defect: it trained on, since its last test had been reported already."""
    trial, trainer = Trial(), Trainer(100)
    trial.should_prune = lambda: True
    callback = worker.ReportTests(trial, "auto")
    getattr(callback, event)(trainer, {"test/return_mean": 1.0})
    assert (len(trainer.stopped), trial.reported) == (1, Trial.reported)


SPACE = {"key": "algo.batch_size", "low": 8, "high": 9}
WITHOUT = sorted(o for o in TINY if not o.startswith(("mode=", "tune.")))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        *(
            ({"overrides": x}, "a study with overrides .*, not .*algo=dqn")
            for x in (5, [1], None, "x")
        ),
        ({"overrides": ["algo=qmix"]}, r"a study with overrides \[algo=qmix\], not \[.*algo=dqn, "),
        ({"metric": "test/x", "mode": "min"}, "metric test/x, not auto; mode min, not max"),
        (
            {"last_tests": 1, "sampler": "gp", "pruner": "none"},
            "last_tests 1, not 3; sampler gp, not tpe; pruner none, not median. Type",
        ),
        (
            {"space": [{"key": "algo.batch_size", "low": 8, "high": 64}]},
            r"space \[\{key: algo.batch_size, low: 8, high: 64\}\], not "
            r"\[\{key: algo.batch_size, low: 8, high: 9\}\]\. Type tune\.dir",
        ),
    ],
)
def test_a_folder_keeps_its_study(tmp_path, changed, says):
    """Defects: a changed search space was named, and not shown; another number of last tests,
    sampler or pruner was taken.
    """
    (tmp_path / "study").mkdir()
    about = {"overrides": WITHOUT, "metric": "auto", "mode": "max", "space": [SPACE]}
    about |= {"last_tests": 3, "sampler": "tpe", "pruner": "median", **changed}
    (tmp_path / "study/study.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(UsageError, match=says):
        run([*TINY, "tune.space=[{key: algo.batch_size, low: 8, high: 9}]"])


@pytest.mark.parametrize("other", [[], ["seed=7"]])
def test_of_two_commands_the_second_finds_the_study_of_the_first(own_folder, monkeypatch, other):
    """Defect: it was refused, or replaced the study by its own."""
    overrides = ["algo=dqn", "env=cartpole"]
    jobs = [study_of(own_folder / "study", *words) for words in (other, [])]
    assert list(jobs[1].overrides) == overrides

    def meanwhile(*about):
        if jobs[1:]:
            assert not begin(jobs.pop())
        require_empty(*about)

    monkeypatch.setattr(command_file, "require_empty", meanwhile)
    if other:
        with pytest.raises(UsageError, match=r"holds a study with overrides .*, not \[seed=7\]"):
            begin(jobs[0])
    else:
        assert begin(jobs[0])
    about = json.loads((own_folder / "study/study.json").read_text())
    assert about["overrides"] == overrides


def test_without_optuna_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"mode=tune needs optuna.*pip install"):
        run(TINY)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_damaged_study_is_named(tmp_path, text):
    (tmp_path / "study").mkdir()
    (tmp_path / "study/study.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"study\.json is not a valid study: .* Type tune\.dir"):
        run(TINY)


CODES = {"SIGUSR1": 85, "SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9}
STUDY = [
    *("mode=tune", "algo=dqn", "env=cartpole", "total_env_steps=1e6", "test.interval=200"),
    *("test.episodes=1", "test.n_envs=1", "algo.learning_starts=50", "hardware.threads=1"),
    *("logger=[]", "tune.dir=study", "tune.jobs=2", "tune.trials=3"),
]


def begun_study():
    """A study of two processes, in a process of its own."""
    command = [sys.executable, "-m", "rltrain", *STUDY]
    return subprocess.Popen(command, stdout=-3, stderr=subprocess.PIPE, text=True)


def wait(until, seconds=120):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.usefixtures("no_nohup")
@pytest.mark.parametrize("moment", ["begun", "importing"])
@pytest.mark.parametrize("name", slow_except([], [*CODES]))
def test_all_processes_stop_and_the_code_is_that_of_the_signal(name, moment, own_folder):
    """Defects: Ctrl-C was ignored, SIGUSR1 and SIGKILL left the workers running, and SIGTERM
    while they were importing ended with 241.
    """
    process = begun_study()
    main = psutil.Process(process.pid)
    if moment == "begun":
        wait(lambda: len([*Path("study/trials").glob("*/metrics.jsonl")]) == 2)
    else:
        wait(lambda: len(main.children()) >= 2)
    workers = main.children(recursive=True)
    os.kill(process.pid, getattr(signal, name))
    _, error = process.communicate(timeout=60)
    assert process.returncode == CODES[name]
    assert "Traceback" not in error
    wait(lambda: not any(w.is_running() and w.status() != "zombie" for w in workers), 30)


@pytest.mark.slow
@pytest.mark.usefixtures("no_nohup")
def test_killed_processes_are_named(own_folder):
    process = begun_study()
    wait(lambda: len([*Path("study/trials").glob("*/metrics.jsonl")]) == 2)
    for child in psutil.Process(process.pid).children():
        if "spawn_main" in " ".join(child.cmdline()):
            child.kill()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 137
    assert error.count("process was killed by SIGKILL. The same command continues its trial.") == 1
