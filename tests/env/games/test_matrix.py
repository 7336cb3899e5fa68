"""Games as arrays: the payoffs of the literature, horizons, what is seen, state."""

import itertools
from typing import get_args, get_type_hints

import numpy as np
import pytest

from rltrain.env.games.lockstep import GameEnv
from rltrain.env.games.matrix import PAYOFFS, MatrixGames, TwoStepGames
from rltrain.env.vector import SyncVectorEnv
from rltrain.types import EnvSpec
from tests.env.games.two_step import TwoStep
from tests.helpers import require_same_steps


def test_the_payoff_tables():
    known = {
        "qtran": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]],
        "qtran_12": [[12, -12, -12], [-12, 0, 0], [-12, 0, 0]],
        "wqmix": [[12, 0, 10], [0, 0, 10], [10, 10, 10]],
        "small_penalty": [[12, -0.1, -0.1], [-0.1, 0, 0], [-0.1, 0, 0]],
        "climbing": [[11, -30, 0], [-30, 7, 0], [0, 6, 5]],
        "qplex": [[10.4, 0, 10], [0, 10, 10], [10, 10, 10]],
        "penalty_0": [[0, 0, 10], [0, 2, 0], [10, 0, 0]],
        "penalty_100": [[-100, 0, 10], [0, 2, 0], [10, 0, -100]],
    }
    assert {name: PAYOFFS[name] for name in known} == known


def test_a_matrix_game_pays_the_row_of_the_first_and_the_column_of_the_second():
    joint = np.array(list(itertools.product(range(3), repeat=2)))
    env = MatrixGames(game="climbing", length=1, n_envs=9)
    env.reset(lambda e, k: 0)
    reward, terminated = env.step(joint)
    assert reward[:, 0].reshape(3, 3).tolist() == PAYOFFS["climbing"]
    assert terminated.all()
    assert env.last.all()
    assert (env.obs == 1).all()
    assert (env.state == 1).all()


def test_a_matrix_game_has_the_size_of_its_table():
    spec = MatrixGames(game="wqmix", n_envs=1, length=25).spec
    assert (spec.n_agents, spec.n_actions, spec.obs_shape, spec.state_dim) == (2, 3, (1,), 1)
    assert (spec.n_rewards, spec.max_steps, spec.reports_win) == (1, 25, False)


@pytest.mark.parametrize("game", get_args(get_type_hints(MatrixGames.__init__)["game"]))
def test_every_named_game_has_a_square_table(game):
    table = MatrixGames(game=game, n_envs=1, length=1).payoff
    assert table.shape == (len(table), len(table))


def test_epymarls_game_of_25_steps_returns_25_times_the_payoff():
    env = MatrixGames(game="penalty_25", length=25, n_envs=1)
    env.reset(lambda e, k: 0)
    steps = [env.step(np.array([[1, 1]])) for _ in range(26)]
    assert sum(float(reward[0, 0]) for reward, _ in steps[:25]) == 50
    assert [bool(terminated[0]) for _, terminated in steps] == [False] * 24 + [True, False]
    assert steps[25][0].tolist() == [[0]]  # the next episode begins
    assert not env.last[0]


def test_the_two_step_game_is_the_one_written_out():
    rng = np.random.default_rng(0)
    ours, plain = TwoStepGames(n_envs=4), SyncVectorEnv(make=TwoStep, n_envs=4)
    for env in (ours, plain):
        env.reset(lambda e, k: 0)
    require_same_steps(ours, plain, rng.integers(2, size=(20, 4, 2)))
    assert ours.spec == plain.spec


class Won(GameEnv):
    """Won in its third step."""

    remembers = ("_t",)

    def __init__(self):
        super().__init__(EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,)), 1)
        self._t = np.zeros(1, np.int64)

    def _begin(self, envs, seeds):
        self._t[envs] = 0

    def _advance(self, action, playing):
        self._t += playing
        over = self._t == 3
        self.infos[0] = {"win": True} if over[0] else {}
        return np.ones(1), over, ~playing


def test_a_loaded_game_has_the_result_of_the_episode_that_ended():
    """Defect: it was in no state."""
    one, other = Won(), Won()
    for env in (one, other):
        env.reset(lambda e, k: 0)
    for _ in range(3):
        one.step(np.zeros((1, 1), np.int64))
    state = one.state_dict()
    one.step(np.zeros((1, 1), np.int64))  # the state is a copy
    other.load_state_dict(state)
    assert other.infos == [{"win": True}]
