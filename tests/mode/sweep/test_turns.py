"""``sweep.batch_seeds``: runs that take turns in one process are those that have it alone."""

import logging
import os
import signal
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest

import rltrain
from benchmarks.faults.runs import result_of
from rltrain.callback import Callback
from rltrain.common.machine import time_and_memory
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from rltrain.mode.sweep import job, run
from rltrain.mode.sweep.job import run_job
from rltrain.mode.sweep.plan import SweepJob
from rltrain.mode.sweep.processes import own_code
from tests.conftest import ROOT, SMALL
from tests.helpers import put_record, record_of

OVERRIDES = [o for o in SMALL if not o.startswith(("algo.exploration", "buffer."))]


@pytest.fixture(autouse=True)
def shortest_turns(monkeypatch):
    """Of one iteration; the logger as it was afterwards."""
    monkeypatch.setattr(job, "TURN", 0.0)
    log = logging.getLogger("rltrain")
    before = log.level, log.propagate
    yield
    log.level, log.propagate = before


@pytest.fixture
def folders(own_folder):
    """Of two runs."""
    return [own_folder / "1", own_folder / "2"]


def in_turns(folders, *overrides, failures=()):
    """Runs with the seeds 1, 2, … in one process; those that exist are resumed."""
    commands = [
        [f"resume={folder}", "trust=[tests]", *(o for o in overrides if o.startswith("callbacks"))]
        if (folder / "run.json").exists()
        else [*OVERRIDES, *overrides, f"seed={seed}", f"hydra.run.dir={folder}"]
        for seed, folder in enumerate(folders, 1)
    ]
    begin = [partial(run_job, len(commands), each, job.train_in_turns) for each in commands]
    return job.run_in_turns(begin, failures)


def alone(folder, *overrides):
    rltrain.train([*OVERRIDES, *overrides, f"hydra.run.dir={folder}"], progress=False)


def record(folder, *keys):
    return tuple(record_of(folder).get(key) for key in keys)


WORKERS = ["algo=vdn", "hardware=process"]
METHODS = {
    "noise of PyTorch's generator": ["algo=rainbow", "algo.learning_starts=20"],
    "sampled quantiles": ["algo=iqn", "algo.learning_starts=20"],
    "a team": ["algo=qmix"],
    "stored states": ["algo=r2d2", "buffer.capacity=128", "algo.learning_starts=60"],
    "weighted losses": ["algo=ow_qmix"],
    "no replay": ["algo=pqn"],
    "plain PyTorch": ["algo=vdn", "hardware.kernels=torch"],
    "test environments that go on": ["algo=iql", "test.resample=true"],
    "workers": ["algo=vdn", "hardware=process", "hardware.n_workers=2"],
}
METHODS["collecting ahead"] = [
    *METHODS["workers"][:2],
    "hardware.n_workers=3",
    "hardware.overlap=true",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", METHODS)
def test_every_run_is_the_one_that_it_would_be_alone(own_folder, name):
    overrides = [*METHODS[name], "total_env_steps=90"]
    together = [own_folder / f"together/{seed}" for seed in (1, 2)]
    assert in_turns(together, *overrides) == 0
    for seed, folder in enumerate(together, 1):
        alone(own_folder / f"alone/{seed}", *overrides, f"seed={seed}")
        assert result_of(folder) == result_of(own_folder / f"alone/{seed}")


class Does(Callback):
    """At 50 env steps of the run with the seed 1, once."""

    def __init__(self, what):
        self.what = what

    def on_iteration(self, trainer, value=None):
        resumes = record_of(trainer.run_dir)["resumes"]
        first = trainer.about["config"]["seed"] == 1 and not resumes
        if not first or trainer.clock.env_steps < 50:
            return
        if self.what == "raises":
            raise ZeroDivisionError("on purpose")
        if self.what == "stops":
            trainer.stop("enough")
        elif self.what == "warns":
            trainer.stop("enough", interrupted=True)
            logging.getLogger("rltrain").warning("I am the first")
        else:
            for name in self.what.split():
                os.kill(os.getpid(), signal.Signals[name])

    def on_exception(self, trainer, error):
        (trainer.run_dir / "exception.txt").write_text(type(error).__name__)


def does(what):
    return f"callbacks=[{{_target_: {__name__}.Does, what: {what}}}]"


CODES = {
    "raises": (1, ("failed", 1), ("finished", 0)),
    "stops": (0, ("finished", 0), ("finished", 0)),
    "SIGTERM SIGINT": (143, ("interrupted", 143), ("interrupted", 143)),
    "SIGTERM": (143, ("interrupted", 143), ("interrupted", 143)),
    "SIGUSR1": (85, ("interrupted", 85), ("interrupted", 85)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", CODES)
def test_what_ends_one_run_ends_all_if_it_is_a_signal_and_they_resume(own_folder, folders, what):
    code, *records = CODES[what]
    overrides = ("algo=vdn", does(what), "save.interval=20")
    assert in_turns(folders, *overrides) == code
    assert [record(folder, "status", "exit_code") for folder in folders] == records
    if what == "SIGTERM SIGINT":
        texts = [(folder / "exception.txt").read_text() for folder in folders]
        assert texts == ["KeyboardInterrupt"] * 2
    if what != "stops":
        unfinished = [folder for folder in folders if record(folder, "status") != ("finished",)]
        assert in_turns(unfinished, *overrides) == 0
        alone(own_folder / "alone", "algo=vdn", "seed=2", does(what), "save.interval=20")
        assert result_of(folders[1]) == result_of(own_folder / "alone")


def test_with_fail_fast_the_others_stop_and_save(folders):
    assert in_turns(folders, "algo=vdn", does("raises"), failures=[1]) == 1
    assert record(folders[0], "status", "exit_code") == ("failed", 1)
    assert record(folders[1], "status", "exit_code") == ("interrupted", 143)


def test_one_that_cannot_begin_leaves_the_others_alone(folders, capsys):
    folders[0].mkdir()
    (folders[0] / "note.txt").touch()
    assert in_turns(folders, "algo=vdn") == 2
    assert "rltrain: 1: " in capsys.readouterr().err
    assert record(folders[1], "status") == ("finished",)


class Leaves(Callback):
    """Ends the program when it is made for the second time."""

    made = 0

    def __init__(self):
        Leaves.made += 1
        if Leaves.made == 2:
            sys.exit(3)


def test_a_part_that_ends_the_program_ends_its_own_run(own_folder):
    folders = [own_folder / name for name in ("1", "2", "3")]
    assert in_turns(folders, "algo=vdn", f"callbacks=[{{_target_: {__name__}.Leaves}}]") == 3
    assert not folders[1].exists()
    assert [record(folders[i], "status") for i in (0, 2)] == [("finished",)] * 2


def test_what_a_thread_logs_is_in_the_log_of_its_own_run(folders, monkeypatch):
    def init(**options):
        raise OSError(f"no space for {options['name']}")

    fake = SimpleNamespace(Settings=dict, run=None, init=init)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    offline = [o.replace("mode=disabled", "mode=offline") for o in OVERRIDES]
    monkeypatch.setattr(sys.modules[__name__], "OVERRIDES", offline)
    assert in_turns(folders, "algo=vdn") == 0
    for folder, other in (folders, folders[::-1]):
        text = (folder / "train.log").read_text()
        assert text.count(f"wandb could not start (no space for {folder.name})") == 1
        assert f"no space for {other.name}" not in text


RECORDS = {
    "ended there": ({"status": "failed", "exit_code": 5, "process": 7}, 5),
    "running there": ({"status": "running", "process": 7}, -9),
    "ended before": ({"status": "finished", "exit_code": 0, "process": 6}, -9),
    "interrupted before": ({"status": "interrupted", "exit_code": 130, "process": 6}, -9),
    "never begun": ({}, -9),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_run_that_did_not_end_in_its_process_has_the_code_of_that(tmp_path, name):
    """Defect: a run that had ended in an earlier process was counted as finished."""
    facts, code = RECORDS[name]
    if facts:
        put_record(tmp_path, **facts)
    assert own_code(SweepJob(tmp_path, ()), -9, process=7) == code


def test_every_run_has_its_own_log(folders, capsys):
    in_turns(folders, "algo=vdn", does("warns"))
    texts = [(folder / "train.log").read_text() for folder in folders]
    assert ["I am the first" in text for text in texts] == [True, False]
    first, second = (text.count("env steps: test return") for text in texts)
    assert first == 1  # the warning ended it
    assert second == 4
    error = capsys.readouterr().err
    assert "[1] warning: I am the first" in error
    assert "[2] warning: I am the first" not in error


def test_cpu_time_is_that_of_the_run_s_own_turns(own_folder, monkeypatch):
    calls = iter(range(1_000_000))

    def cpu_seconds():
        """They pass in the breaks alone."""
        in_break = sys._getframe(1).f_code is job.train_in_turns.__code__
        return float(next(calls)) if in_break else 0.0

    monkeypatch.setattr(time_and_memory, "cpu_seconds", cpu_seconds)
    in_turns([own_folder / "1", own_folder / "2"], "algo=vdn")
    for folder in ("1", "2"):
        (seconds,) = record(own_folder / folder, "cpu_seconds")
        assert seconds < 0  # every break was subtracted


def settings(*rows):
    return [compose_checked([*OVERRIDES, *row]).settings() for row in rows]


REFUSED = {
    "one run": ([["seed=1"]], "but there is one run."),
    "no two of a kind": (
        [["algo=vdn", "seed=1"], ["algo=vdn", "algo.batch_size=9", "seed=2"]],
        "but the runs differ in algo.batch_size.",
    ),
    "many differences": ([["algo=vdn", "seed=1"], ["algo=qmix", "seed=2"]], "but the runs differ"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_sweep_without_runs_that_differ_in_their_seed_alone_is_refused(name):
    rows, reason = REFUSED[name]
    advice = "Type several seeds, such as seed=1,2,3, or sweep.batch_seeds=false."
    with pytest.raises(UsageError, match=f"{reason}.*{advice}"):
        run.require_batches(settings(*rows))


def test_runs_of_one_configuration_are_a_batch(tmp_path):
    rows = [[f"algo={algo}", f"seed={seed}"] for algo in ("vdn", "iql") for seed in (1, 2, 3)]
    jobs = [SweepJob(tmp_path / str(number), tuple(row)) for number, row in enumerate(rows)]
    found = settings(*rows)
    run.require_batches(found)
    batches = run.batches(dict(zip(jobs, found, strict=True)))
    assert batches == [tuple(jobs[:3]), tuple(jobs[3:])]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["", "SIGKILL", "raises"])
def test_a_sweep_of_batches_is_the_sweep_without(own_folder, what):
    """Also if the process of a batch was killed, or a run failed and has another try."""
    words = [*OVERRIDES, "algo=vdn,iql", "seed=1,2", "sweep.fail_fast=true"]
    words += [does(what)] if what else []
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    for folder, batch in (("together", "true"), ("apart", "false")):
        command = [sys.executable, "-m", "rltrain", "-m", *words, f"hydra.sweep.dir={folder}"]
        subprocess.run([*command, f"sweep.batch_seeds={batch}"], env=there, check=True)
    names = sorted(path.parent.name for path in own_folder.glob("apart/*/run.json"))
    assert len(names) == 4
    for name in names:
        assert result_of(own_folder / "together" / name) == result_of(own_folder / "apart" / name)
