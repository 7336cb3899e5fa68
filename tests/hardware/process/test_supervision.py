"""Questions, answers and replacements of workers, whatever comes in between."""

import itertools
import pickle
from functools import partial

import numpy as np
import pytest

from rltrain.hardware.env_share import Share
from rltrain.hardware.process.worker import Answers, Beginning
from rltrain.types import Clock
from tests.hardware.process import beside
from tests.hardware.process.beside import (
    CLOCK,
    Line,
    lose,
    playing_beside,
    require_connected,
    rollout_beside,
    rollouts,
)
from tests.helpers import require_same

pytestmark = pytest.mark.usefixtures("quiet_log")
quiet_log = beside.quiet_log


def interrupted(due, do):
    """Whether Ctrl-C came while this was done, at its message or wait number ``due``."""
    Line.moments, Line.due = 0, due
    try:
        do()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        Line.due = 0


OPERATIONS = {
    "collect": lambda rollout, state: rollout.collect(3, CLOCK),
    "call": lambda rollout, state: rollout.call("set_task", 5),
    "state_dict": lambda rollout, state: rollout.state_dict(),
    "load_state_dict": lambda rollout, state: rollout.load_state_dict(state),
    "restart": lambda rollout, state: rollout.restart(state, 40),
    "abandon": lambda rollout, state: rollout.abandon(40),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_question_gets_its_own_answer_after_an_interrupt_anywhere(operation, overlap):
    """Ctrl-C at each message and wait; where steps may be missing the trainer abandons them."""
    for due in itertools.count(1):
        rollout = rollout_beside(overlap)
        stored = [rollout.collect(3, CLOCK)]
        state = rollout.state_dict()
        stored.append(rollout.collect(3, CLOCK))
        do = OPERATIONS[operation]
        if not interrupted(due, lambda do=do, one=rollout, state=state: do(one, state)):
            break
        if operation not in ("call", "state_dict"):
            rollout.abandon(100)
        stored.append(rollout.collect(3, CLOCK))
        assert rollout.call("echo", due) == [due] * 3
        stored.append(rollout.collect(3, CLOCK))
        require_connected(stored)
        rollout.load_state_dict(state)
        require_same({"steps": rollout.collect(3, CLOCK).obs}, {"steps": stored[1].obs})
    assert due > 4


@pytest.mark.parametrize("waiting", ["collect", "call", "state_dict"])
def test_an_interrupt_while_waiting_loses_nothing(waiting):
    """Ctrl-C in each wait: no worker is replaced, and training continues to the last bit."""
    n_waits = 0
    for due in itertools.count(1):
        one, other = rollout_beside(overlap=True), rollout_beside(overlap=True)
        one.collect(3, CLOCK), other.collect(3, CLOCK)
        poll, polls = Line.poll, itertools.count(1)

        def counted(line, timeout, poll=poll, polls=polls, due=due):
            if next(polls) == due:
                raise KeyboardInterrupt
            return poll(line, timeout)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Line, "poll", counted)
            try:
                OPERATIONS[waiting](one, {})
                break
            except KeyboardInterrupt:
                n_waits += 1
        for _ in range(2):
            require_same(vars(one.collect(3, CLOCK)), vars(other.collect(3, CLOCK)))
        assert one._workers.replaced == 0
    assert n_waits >= 2


def test_tests_give_their_own_episodes_after_an_interrupt_anywhere():
    played = [playing_beside().run_episodes(5, seed, CLOCK) for seed in (0, 1)]
    assert played[0] != played[1]
    for due in itertools.count(1):
        tests = playing_beside()
        if not interrupted(due, lambda tests=tests: tests.run_episodes(5, 0, CLOCK)):
            break
        for seed in (1, 0):
            assert tests.run_episodes(5, seed, CLOCK) == played[seed]
        assert tests.call("echo", due) == [due] * 3
    assert due > 4


def test_a_call_that_is_interrupted_keeps_the_test_that_is_played():
    whole = playing_beside().run_episodes(5, 0, CLOCK)
    for due in itertools.count(1):
        tests = playing_beside()
        tests.begin_episodes(5, 0, CLOCK)
        if not interrupted(due, lambda tests=tests: tests.call("get_task")):
            break
        assert tests.finish_episodes() == whole
    assert due > 4


def test_a_worker_that_raised_is_not_waited_for():
    """Defect: the steps of the others were expected again until the timeout."""
    rollout = rollout_beside(overlap=True)
    stored = [rollout.collect(3, CLOCK)]
    rollouts(rollout._workers)[1].policy.act = None
    stored.append(rollout.collect(3, CLOCK))
    with pytest.raises(TypeError):
        rollout.call("echo", 1)
    stored.append(rollout.collect(3, CLOCK))
    assert rollout._workers.replaced == 1
    require_connected(stored)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("method", ["load_state_dict", "restart"])
def test_a_trainer_that_has_collected_can_be_restored(method, overlap):
    """Defect: with overlap every later answer belonged to the question before it."""
    rollout = rollout_beside(overlap)
    rollout.collect(3, CLOCK)
    state = rollout.state_dict()
    after = []
    for _ in range(2):
        after.append([rollout.collect(3, CLOCK).obs for _ in range(3)])
        if method == "restart":
            rollout.restart(state, 50)
            assert np.all(rollout.collect(1, CLOCK).obs[..., 1] == 0)
        rollout.load_state_dict(state)
    require_same({"steps": after[0]}, {"steps": after[1]})


@pytest.mark.parametrize("overlap", [False, True])
def test_steps_that_were_never_stored_leave_no_transition(overlap):
    """Defect: those collected ahead of them were stored as what came next."""
    rollout = rollout_beside(overlap)
    stored = [rollout.collect(2, CLOCK)]
    rollout.collect(2, CLOCK)  # an exception comes before they are stored
    rollout.abandon(50)
    stored += [rollout.collect(2, CLOCK) for _ in range(3)]
    assert stored[1].lost.all()
    assert np.all(stored[1].obs[0, ..., 1] == 0)
    require_connected(stored)


def of_training(rollout):
    rollout.collect(3, CLOCK)
    rollout.call("set_task", 5)
    lose(rollout._workers)
    rollout.collect(9, CLOCK)


def before_the_first_step(rollout):
    rollout.call("set_task", 5)
    lose(rollout._workers)
    rollout.collect(1, CLOCK)


def twice(rollout):
    of_training(rollout)
    lose(rollout._workers)


def of_a_restored_run(rollout, begun=True, broken=False):
    before = rollout_beside()
    if begun:
        before.collect(3, CLOCK)
    before.call("set_task", 5)
    before._workers.broken = broken
    rollout.load_state_dict(before.state_dict())
    if begun:
        lose(rollout._workers)


RESTORED = [of_a_restored_run, *(partial(of_a_restored_run, begun=False, broken=x) for x in (0, 1))]


@pytest.mark.parametrize("losing", [of_training, before_the_first_step, twice, *RESTORED])
def test_replaced_workers_keep_what_outlives_episodes(losing):
    rollout = rollout_beside()
    losing(rollout)
    assert rollout.call("get_task") == [5] * 3


def test_replaced_workers_draw_random_numbers_of_their_own():
    rollout = rollout_beside()
    of_training(rollout)
    streams = [one.policy.rng for one in rollouts(rollout._workers)]
    assert streams == [1, 2]  # that so many were replaced before


def test_replaced_workers_keep_the_pool_that_collecting_made(monkeypatch):
    monkeypatch.setattr("rltrain.hardware.process.worker.CARRIED_INTERVAL", 0.0)
    rollout = rollout_beside()
    for env_steps in (1, 2, 3):
        rollout.collect(3, Clock(env_steps))
    lose(rollout._workers)
    rollout.collect(3, Clock(4))
    assert [one.opponents.pool for one in rollouts(rollout._workers)] == [[1, 2, 3, 4]] * 2


def test_what_outlives_episodes_is_not_sent_with_every_step():
    rollout = rollout_beside()
    for env_steps in (1, 2, 3):
        rollout.collect(3, Clock(env_steps))
    assert rollout._workers.carried[0]["opponents"] == {"pool": []}


@pytest.mark.parametrize("ended", ["lost", "interrupted"])
def test_replaced_workers_of_tests_keep_what_outlives_episodes(ended):
    tests = playing_beside()
    tests.call("set_task", 5)
    if ended == "lost":
        lose(tests._workers)
    else:
        tests.begin_episodes(3, 0, CLOCK)
        tests.abandon(0)
    tests.run_episodes(3, 0, CLOCK)
    assert tests.call("get_task") == [5] * 3


class TwoParts(Exception):
    """Cannot be made again of its only argument, the message."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyError("x"), KeyError, "'x'"),
        (TwoParts(1, 2), RuntimeError, "TwoParts: 1 and 2"),
        (ValueError("x", lambda: 1), RuntimeError, r"ValueError: \('x', "),
    ],
)
def test_what_a_worker_raises_reaches_the_run(error, kind, message):
    """Defect: the run raised the TypeError of unpickling it."""

    def make(share, replaced):
        raise error

    answers = Answers(None, make, Beginning(Share(0, 0, 1, 1), 0, 0, None))
    name, sent, *_ = pickle.loads(pickle.dumps(answers("start")))
    assert (name, type(sent)) == ("raised", kind)
    with pytest.raises(kind, match=f"^{message}") as raised:
        raise sent
    assert raised.value.__notes__[0].startswith("in worker process 0\nTraceback")
