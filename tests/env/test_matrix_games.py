"""Toy games: the payoffs of the literature, horizons, what is seen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rltrain.env.matrix_games import PAYOFFS, MatrixGame, TwoStep, matrix_game, two_step_game


def play(env: TwoStep, *joint: tuple[int, int]) -> list[tuple[float, bool]]:
    env.reset(0)
    return [(float(r[0]), end) for _, r, end, _, _ in (env.step(np.array(a)) for a in joint)]


def test_the_payoff_tables() -> None:
    assert PAYOFFS == {
        "qtran": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]],
        "penalty": [[12, -12, -12], [-12, 0, 0], [-12, 0, 0]],
        "wqmix": [[12, 0, 10], [0, 0, 10], [10, 10, 10]],
        "small_penalty": [[12, -0.1, -0.1], [-0.1, 0, 0], [-0.1, 0, 0]],
        "climbing": [[11, -30, 0], [-30, 7, 0], [0, 6, 5]],
        "qplex": [[10.4, 0, 10], [0, 10, 10], [10, 10, 10]],
    }


def test_a_matrix_game_pays_the_row_of_the_first_and_the_column_of_the_second() -> None:
    env = MatrixGame(payoff=PAYOFFS["climbing"])
    for row, column in itertools.product(range(3), repeat=2):
        env.reset(0)
        slot, reward, terminated, truncated, _ = env.step(np.array([row, column]))
        assert reward.tolist() == [PAYOFFS["climbing"][row][column]]
        assert (terminated, truncated) == (True, False)
        assert (slot.obs.tolist(), slot.state.tolist()) == ([[1], [1]], [1])


def test_a_matrix_game_has_the_size_of_its_table() -> None:
    spec = MatrixGame(payoff=[[1, 2], [3, 4]]).spec
    assert (spec.n_agents, spec.n_actions, spec.obs_shape, spec.state_dim) == (2, 2, (1,), 1)
    assert (spec.n_rewards, spec.max_steps, spec.reports_win) == (1, 1, False)


@pytest.mark.parametrize("payoff", [[], [[1, 2]], [[1, 2], [3]]])
def test_a_payoff_that_is_not_square_is_refused(payoff: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="square payoff table"):
        MatrixGame(payoff=payoff)


@pytest.mark.parametrize("second", [0, 1])
def test_two_step_safe_branch_pays_7_whatever_is_done(second: int) -> None:
    for joint in itertools.product(range(2), repeat=2):
        assert play(TwoStep(), (0, second), joint) == [(0, False), (7, True)]


@pytest.mark.parametrize("second", [0, 1])
def test_two_step_coordinated_branch_pays_8_to_the_last_joint_action(second: int) -> None:
    paid = {j: play(TwoStep(), (1, second), j)[1] for j in itertools.product(range(2), repeat=2)}
    assert paid == {(0, 0): (0, True), (0, 1): (1, True), (1, 0): (1, True), (1, 1): (8, True)}


def test_two_step_shows_its_state_as_one_hot_and_nothing_at_the_end() -> None:
    env = TwoStep()
    first = env.reset(0)
    safe = env.step(np.array([0, 0]))[0]
    end = env.step(np.array([0, 0]))[0]
    env.reset(0)
    coordinated = env.step(np.array([1, 0]))[0]
    seen = [slot.state.tolist() for slot in (first, safe, coordinated, end)]
    assert seen == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    for slot in (first, safe, coordinated, end):
        assert slot.obs.tolist() == [slot.state.tolist()] * 2
        assert slot.avail_actions.tolist() == [[1, 1], [1, 1]]


def test_the_games_as_vector_environments() -> None:
    env = matrix_game(game="qtran", n_envs=3)
    env.reset(lambda copy, k: 0)
    reward, terminated = env.step(np.array([[0, 0], [0, 1], [2, 2]]))
    assert (reward.tolist(), terminated.tolist()) == ([[8], [-12], [0]], [True] * 3)
    assert two_step_game(n_envs=2).spec.max_steps == 2


def test_two_step_goes_on_from_its_state() -> None:
    env, other = two_step_game(n_envs=1), two_step_game(n_envs=1)
    env.reset(lambda copy, k: 0)
    env.step(np.array([[1, 0]]))
    other.reset(lambda copy, k: 0)
    other.load_state_dict(env.state_dict())
    assert other.step(np.array([[1, 1]]))[0].tolist() == [[8]]
