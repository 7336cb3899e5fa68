"""The jobs of a sweep as processes: how many at once, crashes, signals; the cores and GPUs that are
divided among them; one command at a time in the folder of a sweep.
"""

import io
import os
import platform
import signal
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch

from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from rltrain.logger.screen import Screen
from rltrain.mode.run_folder import run_lock
from rltrain.mode.sweep import processes as room
from rltrain.mode.sweep import run
from rltrain.mode.sweep.processes import Processes, shares
from rltrain.mode.sweep.run import locked
from tests.helpers import put_record
from tests.mode.sweep.jobs import jobs, processes


@pytest.mark.parametrize("at_once", [1, 2])
def test_as_many_jobs_run_at_once_as_there_are_places(own_folder, at_once):
    ours = processes(3, at_once=at_once)
    ours.run(jobs(own_folder, "finish", "finish", "finish"))
    assert len(ours.ended) == 3
    assert ours.most == at_once
    assert set(ours.screen) == {f"place {place}" for place in range(at_once)}


def test_a_job_that_crashed_is_tried_again_so_often(own_folder):
    never, once, quits = jobs(own_folder, "exit 4", "once", "quit")
    ours = processes(3, retries=2)
    ours.run([never, once, quits])
    assert never.record["tries"] == quits.record["tries"] == 3
    assert (once.record["tries"], once.record["status"]) == (2, "finished")
    assert "0_exit: on purpose. It is tried again." in ours.errors


@pytest.mark.parametrize("code", [2, 3, 5])
def test_a_job_that_would_fail_again_is_not_tried_again(own_folder, code):
    (job,) = jobs(own_folder, f"exit {code}")
    processes(1, retries=2).run([job])
    assert job.record["tries"] == 1


@pytest.mark.parametrize(
    ("behavior", "error", "code"),
    [
        ("die", "killed by SIGKILL", 137),
        ("leave", "exit code 1", 1),
        ("quit", "its process ended with exit code 0 before the run", 1),
    ],
)
def test_the_end_of_a_job_that_could_not_record_it_is_recorded(own_folder, behavior, error, code):
    """Defect: one that exited with 0 ran forever in its record."""
    dead, other = jobs(own_folder, behavior, "finish")
    processes(2).run([dead, other])
    assert dead.record["status"] == "failed"
    assert (dead.record["error"], dead.record["exit_code"]) == (error, code)
    assert other.finished


@pytest.mark.parametrize("status", ["finished", "running", "interrupted"])
def test_a_job_that_is_not_continued_keeps_its_record_and_counts(own_folder, status):
    """Defect: that of a run which another process was playing said that it had failed."""
    job, failed = jobs(own_folder, "refuse", "exit 2")
    put_record(job.folder, status=status, exit_code=0, process=os.getpid())
    text = (job.folder / "run.json").read_text()
    ours = processes(2)
    with run_lock(job.folder) if status == "running" else nullcontext():
        ours.run([job, failed])
    assert (job.folder / "run.json").read_text() == text
    assert ours.refused == [3]


def test_a_run_that_was_killed_does_not_go_on_running_in_its_record(own_folder):
    """Defect: where its job then ended before it continued, it ran forever, and failed with 1."""
    (job,) = jobs(own_folder, "refuse")
    put_record(job.folder, status="running", process=1)
    processes(1).run([job])
    assert (job.record["status"], job.record["exit_code"]) == ("failed", 3)


def test_ctrl_c_while_a_job_starts_prints_no_traceback(own_folder, no_nohup):
    """Defect: until Python's own handler was replaced, the imports of the job ended in one."""
    (job,) = jobs(own_folder, "finish")
    ours = processes(1, program=Processes.program)
    with ours.start((job,), 0) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stdout.read() + process.stderr.read() == ""


DROPS = """
import os, signal
from rltrain.mode.sweep import job
def train(n_jobs, arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        return 1
job.train = train
raise SystemExit(job.main(["1"]))
"""


def test_ctrl_c_while_a_job_starts_ends_it_though_an_import_drops_exceptions(own_folder):
    """Defect: the run went on without the rest of NumPy, failed, and its exit code was 1."""
    (job,) = jobs(own_folder, "finish")
    ours = processes(1, program=(sys.executable, "-c", DROPS))
    with ours.start((job,), 0) as process:
        assert process.wait() == 130


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGUSR1", 85)])
def test_a_signal_reaches_every_running_job_once_and_none_begins_after_it(own_folder, name, code):
    first, second, third = jobs(own_folder, "wait", "wait", "finish")
    ours, before = processes(3), signal.getsignal(signal.SIGINT)

    def send_when_both_wait(text):
        if ours.screen.count("waiting") == 2 and text == "waiting":
            os.kill(os.getpid(), signal.Signals[name])

    ours.screen.on_line = send_when_both_wait
    ours.run([first, second, third])
    assert [job.record["exit_code"] for job in (first, second)] == [code, code]
    assert [job.record["signals"] for job in (first, second)] == [1, 1]
    assert not third.record
    assert ours.stopped == name
    assert "stop after their current iteration and save" in ours.errors[0]
    assert signal.getsignal(signal.SIGINT) is before


def test_with_fail_fast_none_begins_after_a_job_that_quits(own_folder):
    quits, never = jobs(own_folder, "quit", "finish")
    processes(2, at_once=1, fail_fast=True).run([quits, never])
    assert (quits.status, never.status) == ("failed", "not started")


def test_with_fail_fast_a_failed_job_stops_the_others(own_folder):
    waits, fails, never = jobs(own_folder, "wait", "exit 2 go", "finish")
    ours = processes(3, fail_fast=True)
    ours.screen.on_line = lambda text: text == "waiting" and (fails.folder / "go").touch()
    ours.run([waits, fails, never])
    assert waits.record["exit_code"] == 143
    assert not never.record
    assert "1_exit failed: the other runs stop and save." in ours.errors


def test_an_interrupted_job_does_not_end_the_others(own_folder):
    stopped, other = jobs(own_folder, "exit 143", "finish")
    processes(2, fail_fast=True, at_once=1).run([stopped, other])
    assert other.finished


def test_lines_of_jobs_are_passed_on_whole(own_folder):
    (job,) = jobs(own_folder, "say")
    ours = processes(1)
    ours.screen, ours.errors = (Screen(file=io.StringIO(), width=40) for _ in range(2))
    ours.run([job])
    assert ours.screen.file.getvalue() == "place 0\n[0_say] test " + "x" * 50 + "\n"
    assert ours.errors.file.getvalue() == "[0_say] warning: [y]\n"


def settings(n, *overrides):
    return [compose_checked(["env=two_step", *overrides]).settings()] * n


@pytest.mark.parametrize(
    ("cores", "jobs", "typed", "at_once", "threads"),
    [
        (4, "auto", [], 4, ["hardware.threads=1"]),  # recurrent agents take 2 by themselves
        (16, "auto", [], 6, []),
        (4, "auto", ["hardware.threads=2"], 2, []),
        (2, "auto", ["hardware.threads=3"], 1, []),
        (2, 6, [], 6, ["hardware.threads=1"]),
        (16, 100, [], 6, []),
    ],
)
def test_cores_are_divided(monkeypatch, cores, jobs, typed, at_once, threads):
    monkeypatch.setattr(room, "available_cores", lambda: cores)
    share = shares(jobs, settings(6, "hardware=cpu", *typed))
    assert (share.at_once, share.gpus) == (at_once, ())
    assert share.overrides(settings(1, "hardware=cpu", *typed)[0]) == threads
    assert share.environment(0) == {}


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [(None, ("0", "1")), ("3, 5", ("3", "5")), ("GPU-a,GPU-b", ("GPU-a", "GPU-b"))],
)
def test_gpus_are_taken_in_turn(monkeypatch, visible, gpus):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    share = shares("auto", settings(6))
    assert (share.at_once, share.gpus) == (2, gpus)
    four = shares(4, settings(6))
    taken = [four.environment(place)["CUDA_VISIBLE_DEVICES"] for place in range(4)]
    assert taken == [*gpus, *gpus]


def test_a_second_command_in_the_folder_is_refused(own_folder):
    with locked(own_folder / "s"), pytest.raises(UsageError, match="is running already"):
        locked(own_folder / "s").__enter__()
    with locked(own_folder / "s"):
        pass


def test_after_a_killed_command_the_end_of_its_jobs_is_awaited(own_folder, monkeypatch):
    ends = "import sys; sys.stdin.read(); open('s/saved', 'w')"
    with locked(own_folder / "s") as lock:
        job = subprocess.Popen([sys.executable, "-c", ends], stdin=subprocess.PIPE, pass_fds=[lock])
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (own_folder / "s/.lock").write_text(f"{platform.node()} {ended.pid}")
    messages = []
    monkeypatch.setattr(run, "say", lambda text: (messages.append(text), job.stdin.close()))
    with locked(own_folder / "s") as lock:
        assert lock is not None
        assert (own_folder / "s/saved").exists()
    assert "Waiting until the runs" in messages[0]
    job.wait()
