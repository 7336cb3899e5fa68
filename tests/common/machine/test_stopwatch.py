"""Shares of the time."""

import time

import numpy as np
import pytest

from rltrain.common.machine.usage import Stopwatch


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
