"""What a run costs."""

import time

import numpy as np
import psutil
import pytest

from rltrain.common.machine.usage import Usage, peak_memory


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
