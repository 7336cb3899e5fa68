"""What a run uses, and what the machine has left for it."""

import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from rltrain.common.machine.time_and_memory import (
    Stopwatch,
    Usage,
    available_memory,
    free_disk,
    peak_memory,
)


def work(seconds):
    """Keep a CPU busy."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_cpu_time_counts_work_and_not_waiting():
    usage = Usage()
    time.sleep(0.05)
    assert usage.state_dict()["cpu_seconds"] < usage.seconds
    work(0.05)
    assert usage.state_dict()["cpu_seconds"] >= 0.04


def test_time_before_it_begins_does_not_count():
    usage = Usage()
    work(0.05)
    usage.begin()
    assert usage.state_dict()["cpu_seconds"] < 0.04


def test_a_resumed_run_goes_on_counting():
    usage = Usage()
    usage.load_state_dict({"seconds": 100.0, "cpu_seconds": 50.0, "peak_memory_bytes": 10**15})
    assert 100 <= usage.seconds < 110
    state = usage.state_dict()
    assert 50 <= state.pop("cpu_seconds") < 60
    assert state.keys() == {"seconds", "peak_memory_bytes"}
    assert state["peak_memory_bytes"] == 10**15


@pytest.mark.slow
def test_the_peak_is_at_least_the_size_of_an_array_that_is_gone():
    before = peak_memory()
    unused = before - psutil.Process().memory_info().rss  # of what was in use once
    big = np.ones(max(unused, 0) // 8 + 2**25)  # and 256 MB, some of which may be free already
    del big
    assert peak_memory() >= before + 2**25


def test_the_peak_is_known_without_linux(tmp_path):
    assert peak_memory(tmp_path / "none") > 2**20


def test_the_peak_is_that_of_linux(tmp_path):
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t    2048 kB\nThreads:\t1\n")
    assert peak_memory(tmp_path / "status") == 2048 * 1024


def test_shares_are_of_all_time_and_collecting_is_divided_as_the_rollouts_say(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    watch = Stopwatch()
    for part, seconds in (("collecting", 6.0), ("sampling", 1.0), ("learning", 2.0)):
        now[0] += seconds
        watch.lap(part)
    now[0] = 10.0
    spent = np.array([[1.0, 3.0], [1.0, 3.0]])  # two workers: a quarter of it acting
    shares = watch.take(spent)
    assert shares == pytest.approx(
        {"acting_share": 0.15, "env_share": 0.45, "sampling_share": 0.1, "learning_share": 0.2}
    )
    now[0] = 20.0
    assert set(watch.take(spent).values()) == {0.0}


def limited(folder, limit, usage, names=("memory.max", "memory.current")):
    for name, text in zip(names, (limit, usage), strict=True):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{text}\n")
    return folder


def test_a_container_may_leave_less_than_the_machine_has(tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000))
    assert available_memory(tmp_path / "nowhere") == 1000
    for limit, left in ((500, 300), (5000, 1000), (100, 0), ("max", 1000)):
        assert available_memory(limited(tmp_path, limit, 200)) == left


def test_control_groups_of_the_first_kind(tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000))
    names = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
    assert available_memory(limited(tmp_path, 500, 100, names)) == 400


def test_the_room_for_a_folder_is_what_is_free_beside_its_own_files(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    assert free_disk(tmp_path / "not" / "there") == 1000
    (tmp_path / "file").write_bytes(b"x" * 8192)
    assert free_disk(tmp_path) == 1000 + 8192
