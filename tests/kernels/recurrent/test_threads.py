"""The number of threads of a learning step."""

import logging

import pytest

import rltrain
from rltrain.kernels.recurrent.threads import PERIOD, MeasuredThreads
from tests.algo.batches import SPEC


def play(threads, seconds, steps):
    """Steps that take ``seconds`` of their number of threads; the numbers used."""
    used = []
    for work in range(1, steps + 1):
        used.append(threads.n)
        threads.took(seconds[threads.n] * work, work)  # steps of different sizes
    return used


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({1: 10, 2: 6, 4: 4, 6: 3}, 6),
        ({1: 10, 2: 6, 4: 5.9, 6: 9}, 2),
        ({1: 10, 2: 9.5, 4: 30, 6: 40}, 1),
    ],
)
def test_the_fastest_is_chosen_and_more_only_where_they_help(seconds, best):
    threads = MeasuredThreads(6)
    assert set(play(threads, seconds, 40)) == {1, 2, 4, 6}
    assert set(play(threads, seconds, PERIOD // 2)) == {best}


def test_another_load_is_noticed_and_each_choice_is_logged_once(caplog):
    caplog.set_level(logging.INFO, "rltrain")
    threads = MeasuredThreads(2)
    play(threads, {1: 0.010, 2: 0.006}, 3 * PERIOD)
    assert (threads.best, len(caplog.messages)) == (2, 1)
    assert "The learner uses 2 threads: a learning step takes" in caplog.text
    play(threads, {1: 0.010, 2: 0.050}, 2 * PERIOD)
    assert (threads.best, len(caplog.messages)) == (1, 2)


def test_one_core_measures_nothing():
    assert set(play(MeasuredThreads(1), {1: 1}, 50)) == {1}


@pytest.mark.parametrize(("typed", "measured"), [([], True), (["hardware.threads=1"], False)])
def test_threads_are_measured_unless_a_number_is_typed(typed, measured):
    learner = rltrain.make_learner(["algo=qmix", "logger.wandb.mode=disabled", *typed], SPEC)
    assert (learner.loss.threads is not None) is measured
