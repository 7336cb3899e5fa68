"""Output that cannot be written ends nothing: every fault, in every command, from any moment on;
terminals of every kind show lines that can be read.
"""

import gc
import itertools
import os
import pty
import resource
import signal
import subprocess
import sys
import termios
import threading
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
from tests.helpers import over, without
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
    words = without(small, "logger.console", "env=")
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
    process.send_signal(getattr(signal, number))
    process.wait()
    until, records = time.monotonic() + 120, list(own_folder.glob("sweep/*/run.json"))
    while any(get_json(path).get("status") == "running" for path in records):
        assert time.monotonic() < until
        time.sleep(0.2)
    for path in records:
        record = get_json(path)
        assert (record["status"], record["exit_code"]) == ("interrupted", 143)
        assert (path.parent / f"checkpoints/{record['env_steps']}").exists()


ASCII_ONLY = {"TERM": "dumb", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
TERMINALS = {
    "no terminal": {},
    "dumb": {"TERM": "dumb"},
    "20 columns": {"COLUMNS": "20"},
    "no colors": {"NO_COLOR": "1"},
    "not UTF-8": ASCII_ONLY,
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "Latin-1": {"PYTHONIOENCODING": "latin-1"},
}
"""Environment variables by the kind of terminal."""


@pytest.fixture
def shown_run(small, own_folder):
    """Run a process that trains and shows it; gives the process and what it wrote to a pipe."""
    command = [sys.executable, "-m", "rltrain", *over(small, *TRAIN)]

    def done(before=(), variables=None, beside=None, **streams):
        """``beside`` works in a thread meanwhile."""
        environment = os.environ | (variables or {})
        process = subprocess.Popen([*before, *command], env=environment, **streams)
        if beside is not None:
            beside(process)
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        assert get_json(own_folder / "run/run.json")["status"] == "finished"
        return out

    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", TERMINALS)
def test_a_run_into_a_pipe_is_readable(shown_run, kind):
    pipe = subprocess.PIPE
    shown = shown_run(variables=TERMINALS[kind], stdout=pipe, stderr=pipe).decode("latin-1")
    assert "\x1b" not in shown
    assert "return" in shown


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["20 columns", "dumb", "not UTF-8"])
def test_a_run_in_a_terminal_goes_on(shown_run, kind):
    ours, theirs = pty.openpty()
    columns = 20 if kind == "20 columns" else 80
    termios.tcsetwinsize(theirs, (24, columns))
    shown = []

    def read():
        while True:
            try:
                shown.append(os.read(ours, 4096))
            except OSError:  # its other end is closed
                return

    reader = threading.Thread(target=read)
    reader.start()
    variables = {"TERM": "xterm"} | ({} if kind == "20 columns" else TERMINALS[kind])
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    shown_run(variables=variables, beside=lambda process: os.close(theirs), **streams)
    reader.join()
    os.close(ours)
    assert b"Traceback" not in b"".join(shown)


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_run_without_a_standard_stream_goes_on(shown_run, stream):
    closed = ["stdin", "stdout", "stderr"].index(stream)
    shown_run(before=["sh", "-c", f'exec "$@" {closed}>&-', "sh"])


@pytest.mark.slow
def test_a_run_whose_reader_goes_away_goes_on(shown_run):
    def read_a_line(process):
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None

    shown_run(beside=read_a_line, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_a_help_whose_reader_has_gone_is_quiet():
    line = f"{sys.executable} -m rltrain --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode in (0, 141)
    assert done.stderr == ""
