"""Promise by state: all pairs are slow tests; the mixtures have every promise and every state."""

from typing import Any

import pytest

from tests.integration.promises.checks import (
    CHECKS,
    DATASET,
    OPPONENT,
    Whole,
    require_refused,
    whole_run,
)
from tests.integration.promises.sample import MIXTURES, own_words
from tests.integration.promises.states import (
    OF_OTHERS,
    PROMISES,
    STATES,
    Refused,
    State,
    typed_words,
)

PAIRS = [
    (promise, name)
    for name, state in STATES.items()
    for promise in PROMISES
    if isinstance(state.without.get(promise, Refused()), Refused)
]


def what_runs(state: State) -> tuple[Any, ...]:
    """What the run of a state is made of: some states differ in the environment only."""
    return state.words, state.env


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The uninterrupted run of a state, made at its first use."""
    made: dict[tuple[Any, ...], Whole] = {}

    def run_of(state: State) -> Whole:
        if "dataset.read={dataset}" in state.words and DATASET[0] is None:
            DATASET[0] = run_of(STATES["dataset.write"]).folder.parent / "data"
        if any("outputs/opponent" in word for word in state.words) and OPPONENT[0] is None:
            OPPONENT[0] = run_of(STATES["battle"]).folder
        key = what_runs(state)
        if key not in made:
            made[key] = whole_run(state, tmp_path_factory.mktemp("whole"))
        return made[key]

    yield run_of
    for whole in made.values():
        whole.trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize(("promise", "name"), PAIRS)
def test_a_promise_holds_for_a_state(promise, name, runs, tmp_path):
    state = STATES[name]
    whole = runs(state)
    if promise in state.without:
        require_refused(state, promise, tmp_path, state.without[promise])
        return
    CHECKS[promise](state, whole, tmp_path / "again")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mixed", MIXTURES, ids=lambda mixed: f"{mixed.promise}-{mixed.states[0]}")
def test_a_promise_holds_for_several_states_together(mixed, runs, tmp_path):
    CHECKS[mixed.promise](mixed.run, runs(mixed.run), tmp_path / "again")


def test_the_sample_has_every_promise_and_every_state():
    elsewhere = {"ray", "export"}  # an extra; tests/mode/test_export.py
    assert {mixed.promise for mixed in MIXTURES} == {*PROMISES} - elsewhere
    assert {name for mixed in MIXTURES for name in mixed.states} == {*STATES} - {*OF_OTHERS}
    for mixed in MIXTURES:
        typed = typed_words(*mixed.run.words)
        assert {*own_words(mixed.states)} <= {*typed.values()}, mixed.states
        envs = [STATES[name].env for name in mixed.states if STATES[name].env is not None]
        assert all(issubclass(mixed.run.env, env) for env in envs), mixed.states
        assert all(mixed.promise not in STATES[name].without for name in mixed.states)


def test_no_state_is_compared_with_the_run_of_another():
    assert len({what_runs(state) for state in STATES.values()}) == len(STATES)
