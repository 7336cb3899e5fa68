"""Output that cannot be written ends nothing: every fault, in every command, from any moment on."""

import gc
import itertools
import json
import os
import pty
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rltrain
from rltrain.common.files import get_json
from rltrain.logger.loggers import Loggers
from rltrain.logger.screen import Screen
from rltrain.mode.sweep.plan import SweepJob
from rltrain.mode.sweep.processes import Processes
from rltrain.trainer import Trainer
from tests.common.machine.test_streams import FAILURES, Failing
from tests.marks import each_once


class FailingLater(Failing):
    """A stream that fails after some writes; ``seen`` counts all of them."""

    def __init__(self, error, terminal, after):
        super().__init__(error, terminal)
        self.after, self.seen = after, 0

    def write(self, text):
        self.seen += 1
        if self.seen > self.after:
            raise self.error
        return len(text)

    def flush(self):
        if self.seen > self.after:
            raise self.error


TRAIN = ["logger.console=true", "hydra.run.dir=run", "total_env_steps=60"]
COMMANDS = {
    "train": TRAIN,
    "train, warned": [*TRAIN, "algo.learning_starts=1000"],
    "resume": ["resume=run", "total_env_steps=180"],
    "evaluate": ["mode=evaluate", "checkpoint=run", "test.episodes=2"],
    "evaluate all": ["mode=evaluate", "checkpoint=run", "load_step=all", "test.episodes=2"],
    "report": ["mode=report", "runs=run"],
    "doctor": ["mode=doctor", "env=two_step"],
    "list": ["mode=list"],
}
RUNS = ("train", "train, warned")


@pytest.fixture
def lose(monkeypatch):
    """Let both standard streams fail after some writes."""

    def install(kind, terminal, after):
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, FailingLater(FAILURES[kind], terminal, after))

    return install


SAMPLE = [
    ("full disk", "train", False, 0),
    ("vanished terminal", "train, warned", True, 3),
    ("closed pipe", "resume", False, 2),
    ("closed descriptor", "evaluate", False, 0),
    ("closed file", "list", True, 0),
]
EVERY = itertools.product(FAILURES, COMMANDS, [False, True], [0, 1, 3, 6])
OTHERS = [pytest.param(*case, marks=pytest.mark.slow) for case in EVERY if case not in SAMPLE]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "name", "terminal", "after"),
    [*SAMPLE, *OTHERS],
)
def test_a_command_ends_as_usual(
    command, small, trained, own_folder, lose, kind, name, terminal, after
):
    lose(kind, terminal, after)
    words = COMMANDS[name]
    if name in RUNS:
        words = [*small, *words]
    else:
        trained.rename(own_folder / "run")
    assert command(*words) == 0
    if name in (*RUNS, "resume"):
        record = get_json(Path("run/run.json"))
        assert (record["status"], record["exit_code"]) == ("finished", 0)
        assert Path(f"run/checkpoints/{record['env_steps']}/replay.json").exists()
        assert Path("run/README.md").exists()
    elif "evaluate" in name:
        assert get_json(Path("run/evaluation.json"))
    elif name == "report":
        assert list(own_folder.glob("outputs/report/*/report.html"))


def gone_terminal():
    ours, theirs = pty.openpty()
    os.close(ours)
    return theirs


def closed_pipe():
    ours, theirs = os.pipe()
    os.close(ours)
    return theirs


PLACES = {
    "full disk": lambda: os.open("/dev/full", os.O_WRONLY),
    "vanished terminal": gone_terminal,
    "closed pipe": closed_pipe,
    "file size limit": lambda: os.open("log", os.O_WRONLY | os.O_CREAT),
}
SWEEP = ["-m", "seed=1,2", "hydra.sweep.dir=sweep"]
TUNE = ["mode=tune", "tune=dqn", "tune.trials=2", "tune.dir=study"]


def real(words, where, **options):
    """The exit code of a command of its own, whose output goes to one of PLACES."""
    stream = PLACES[where]()
    line = [sys.executable, "-m", "rltrain", *words]
    environment = os.environ | {"TERM": "xterm"}
    done = subprocess.run(line, stdout=stream, stderr=stream, env=environment, **options)
    os.close(stream)
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("what", ["train", "sweep", "tune"])
def test_a_command_of_its_own_ends_as_usual(small, own_folder, where, what):
    """What environments print is lost as well: the environment here prints at every step."""
    Path("talks.py").write_text(
        "import gymnasium\n\n\nclass Talks(gymnasium.Wrapper):\n"
        "    def __init__(self):\n        super().__init__(gymnasium.make('CartPole-v1'))\n\n"
        "    def step(self, action):\n        print('x' * 200)\n"
        "        return self.env.step(action)\n",
        encoding="utf-8",
    )
    words = [word for word in small if not word.startswith(("logger.console", "env="))]
    words += ["env=gymnasium", "env.id=talks:Talks", "env.max_episode_steps=10", "algo=dqn"]
    words += ["algo.learning_starts=20", "buffer.capacity=1000"]
    if what == "tune":
        pytest.importorskip("optuna")
    more = {"train": ["hydra.run.dir=run"], "sweep": SWEEP, "tune": TUNE}[what]

    def limit():
        if where == "file size limit":
            os.truncate("log", 1 << 27)  # longer than any file of the run
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 27, 1 << 27))
            os.lseek(1, 0, os.SEEK_END)
            os.lseek(2, 0, os.SEEK_END)

    assert real([*words, *more], where, preexec_fn=limit) == 0
    records = list(own_folder.glob("**/run.json"))
    assert len(records) == (1 if what == "train" else 2)
    assert {get_json(path)["status"] for path in records} == {"finished"}


def raising(error):
    def close(self, *about):
        raise error

    return close


@pytest.mark.sampled(1)
@each_once(error=[RuntimeError(), SystemExit(9), KeyboardInterrupt()], part=[Loggers, Trainer])
def test_a_run_that_cannot_be_closed_is_recorded(command, small, monkeypatch, part, error):
    monkeypatch.setattr(part, "close", raising(error))
    with pytest.raises(type(error)):
        command(*small, "total_env_steps=40", "hydra.run.dir=run")
    assert get_json(Path("run/run.json"))["status"] == "finished"


@pytest.mark.slow
def test_a_run_that_is_driven_by_hand_and_left_is_recorded(small):
    trainer = rltrain.make_trainer(small, run_dir="run")
    trainer.iterate()
    assert get_json(Path("run/run.json"))["status"] == "running"
    trainer.close()
    del trainer
    gc.collect()
    assert get_json(Path("run/run.json"))["status"] == "interrupted"


def test_jobs_are_stopped_and_not_killed_when_the_display_fails(tmp_path):
    class Broken(Screen):
        def print(self, *texts, **options):
            raise ValueError("a bug")

    program = (
        "import pathlib, signal, sys, time\n"
        "def stop(*about):\n    pathlib.Path(sys.argv[2] + '.saved').touch()\n    sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('begun', flush=True)\ntime.sleep(100)\n"
    )
    job = SweepJob(tmp_path / "0_job", ())
    job.folder.mkdir()
    processes = Processes(
        n_jobs=1,
        at_once=1,
        retries=0,
        fail_fast=False,
        screen=Broken(),
        errors=Screen(),
        command=lambda job: [str(job.folder)],
        environment=lambda place: {},
        program=(sys.executable, "-c", program),
    )
    with pytest.raises(ValueError, match="a bug"):
        processes.run([(job,)])
    assert (tmp_path / "0_job.saved").exists()
    assert (job.record["status"], job.record["exit_code"]) == ("failed", 143)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL"])
def test_jobs_of_a_sweep_that_is_gone_save(small, own_folder, number):
    words = [*small, "total_env_steps=1e7", *SWEEP]
    line = [sys.executable, "-m", "rltrain", *words]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list(own_folder.glob("sweep/*/metrics.jsonl"))) < 2:
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(getattr(__import__("signal"), number))
    process.wait()
    until = time.monotonic() + 120
    while any(status(path) == "running" for path in own_folder.glob("sweep/*/run.json")):
        assert time.monotonic() < until
        time.sleep(0.2)
    for path in own_folder.glob("sweep/*/run.json"):
        record = get_json(path)
        assert (record["status"], record["exit_code"]) == ("interrupted", 143)
        assert (path.parent / f"checkpoints/{record['env_steps']}").exists()


def status(path):
    return json.loads(path.read_text(encoding="utf-8")).get("status")
