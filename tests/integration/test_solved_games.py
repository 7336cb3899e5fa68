"""Matrix games with known solutions, learned by IQL, VDN and QMIX."""

import itertools

import numpy as np
import pytest
import torch

import rltrain
from benchmarks.matrix_games import greedy_return, learned
from rltrain.env.games.matrix import PAYOFFS
from rltrain.types import Clock

UNIFORM = ["algo.exploration.start=1", "algo.exploration.end=1", "test.interval=1000000"]
UNIFORM += ["hardware.threads=1", "save.interval=100000000", "log.interval=1000000"]


def joint_values(trainer, obs, state, last_action=None):
    """Q_tot of every joint action at one step of a two-agent game, [A, A]."""
    online = trainer.learner.online
    n = online.agents.fc2.out_features if hasattr(online.agents, "fc2") else None
    last = torch.full((1, 2), -1) if last_action is None else torch.tensor([last_action])
    hidden = torch.zeros(1, 2, online.agents.hidden_dim)
    with torch.no_grad():
        q, _ = online.agents.step(torch.tensor(obs)[None], last, hidden)
        n = n or q.shape[-1]
        table = torch.empty(n, n)
        for a, b in itertools.product(range(n), repeat=2):
            chosen = torch.stack([q[0, 0, a], q[0, 1, b]]).view(1, 1, 2)
            greedy = q.max(-1).values.view(1, 1, 2)
            action = torch.tensor([[[a, b]]])
            mixed = online.mixer(chosen, greedy, action, torch.tensor(state).view(1, 1, -1))
            table[a, b] = mixed.item()
    return table.numpy()


def solved(overrides, folder, env_steps):
    trainer = rltrain.make_trainer([*UNIFORM, "algo/network=mlp", *overrides], run_dir=folder)
    trainer.run(env_steps)
    return trainer


TWO_STEP = ["env=two_step", "buffer.capacity=500", "algo.target_update.episodes=100"]
TWO_STEP += ["algo.mixer.embed_dim=8"]


def state_of(k):
    one_hot = np.eye(4, 3, dtype=np.float32)[k]
    return np.stack([one_hot, one_hot]), one_hot


@pytest.mark.slow
def test_qmix_solves_the_two_step_game(tmp_path):
    trainer = solved(["algo=qmix", *TWO_STEP], tmp_path, 3_000)
    assert trainer.test(episodes=4)["test/return_mean"] == 8


@pytest.mark.slow
def test_qmix_learns_the_two_step_game_exactly(tmp_path):
    trainer = solved(["algo=qmix", *TWO_STEP], tmp_path, 14_000)
    first = joint_values(trainer, *state_of(0))
    np.testing.assert_allclose(first, [[6.93, 6.93], [7.92, 7.92]], atol=0.1)
    np.testing.assert_allclose(joint_values(trainer, *state_of(1)), np.full((2, 2), 7), atol=0.1)
    np.testing.assert_allclose(joint_values(trainer, *state_of(2)), [[0, 1], [1, 8]], atol=0.1)
    assert trainer.test(episodes=4)["test/return_mean"] == 8


@pytest.mark.slow
def test_vdn_learns_its_least_squares_table_of_the_two_step_game(tmp_path):
    # many episodes in the replay: its table is only as uniform as they are
    overrides = ["algo=vdn", "env=two_step", "buffer.capacity=5000", "algo.batch_size=256"]
    trainer = solved([*overrides, "algo.target_update.episodes=100"], tmp_path, 14_000)
    first = joint_values(trainer, *state_of(0))
    np.testing.assert_allclose(first, [[6.93, 6.93], [6.435, 6.435]], atol=0.15)
    third = joint_values(trainer, *state_of(2))
    np.testing.assert_allclose(third, [[-1.5, 2.5], [2.5, 6.5]], atol=0.15)
    assert trainer.test(episodes=4)["test/return_mean"] == 7


def additive_fit(payoff, weight):
    """The table a[i] + b[j] nearest to ``payoff``, each cell counted ``weight`` times."""
    n = len(payoff)
    cells = [(i, j) for i in range(n) for j in range(n)]
    design = np.array([[*(np.arange(n) == i), *(np.arange(n) == j)] for i, j in cells], float)
    root = np.sqrt(weight.reshape(-1, 1))
    found = np.linalg.lstsq(design * root, payoff.reshape(-1, 1) * root, rcond=None)[0]
    return (design @ found).reshape(n, n)


VDN_TABLES = {
    "qtran": [[-6.22, -4.89, -4.89], [-4.89, -3.56, -3.56], [-4.89, -3.56, -3.56]],
    "wqmix": [[7.78, 3.78, 10.44], [3.78, -0.22, 6.44], [10.44, 6.44, 13.11]],
    "climbing": [[-9.22, -8.56, -1.22], [-10.56, -9.89, -2.56], [0.78, 1.44, 8.78]],
}
"""VDN's least-squares limits on uniform data."""


@pytest.mark.parametrize("game", sorted(VDN_TABLES))
def test_the_closed_form_gives_the_known_tables(game):
    fit = additive_fit(np.array(PAYOFFS[game], float), np.ones((3, 3)))
    np.testing.assert_allclose(fit, VDN_TABLES[game], atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("game", sorted(VDN_TABLES))
def test_vdn_learns_the_least_squares_table_of_a_matrix_game(tmp_path, game):
    overrides = ["algo=vdn", "env=matrix", f"env.game={game}", "buffer.capacity=5000"]
    trainer = solved([*overrides, "algo.batch_size=256"], tmp_path, 12_000)
    table = joint_values(trainer, np.ones((2, 1), np.float32), np.ones(1, np.float32))
    state = trainer.buffer.state_dict()  # its joint actions are only nearly uniform
    played = np.asarray(state["steps.action"])[~np.asarray(state["steps.last"])].astype(int)
    weight = np.zeros((3, 3))
    np.add.at(weight, (played[:, 0], played[:, 1]), 1)
    payoff = np.array(PAYOFFS[game], float)
    noise = 0.02 * (payoff.max() - payoff.min())  # of the last gradient steps
    np.testing.assert_allclose(table, additive_fit(payoff, weight), atol=noise)


@pytest.mark.parametrize(
    ("game", "alpha", "error", "greatest"),
    [("qtran", 1, 288, [8]), ("wqmix", 1, 3, [12, 10, 10, 10]), ("qtran", 0.1, 52.364, [8])],
)
def test_the_best_monotone_table_of_a_game(game, alpha, error, greatest):
    from benchmarks.monotone_fits import best_fit  # which imports SciPy

    payoff = np.array(PAYOFFS[game], float)
    found, table = best_fit(payoff, alpha)
    assert found == pytest.approx(error, abs=1e-3)
    assert sorted(payoff[table > table.max() - 0.01])[::-1] == greatest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "game", "payoff"),
    [("qmix", "small_penalty", 12), ("iql", "qtran", 0)],
    ids=["qmix finds the optimum behind small penalties", "iql plays the safe cell"],
)
def test_trainers_play_these_payoffs(tmp_path, algo, game, payoff):
    overrides = [f"algo={algo}", "env=matrix", f"env.game={game}", "buffer.capacity=2000"]
    trainer = solved(overrides, tmp_path, 12_000)
    assert trainer.test(episodes=1)["test/return_mean"] == payoff
    assert trainer.clock != Clock()


SMALL_ALPHA = {"more": ["algo.loss.alpha=0.01"]}
AUTHORS = {"updates": 8000, "batch_size": 32, "lr": "1e-3"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "algo", "payoff", "settings"),
    [
        ("qtran", "cw_qmix", 8, {}),
        ("qtran", "ow_qmix", 8, {}),
        ("qtran", "qtran", 8, {}),
        ("qtran", "qplex", 8, AUTHORS),
        ("small_penalty", "vdn", 12, {}),
        ("small_penalty", "qmix", 12, {}),
        ("climbing", "qmix", 5, {}),
        ("climbing", "cw_qmix", 11, {}),
        ("qtran_12", "cw_qmix", 12, {}),
        ("qtran_12", "ow_qmix", 12, {}),
        ("qplex", "cw_qmix", 10.4, {}),
        ("penalty_25", "cw_qmix", 10, {}),
        ("penalty_25", "ow_qmix", -25, {}),  # which its best monotone tables tie with the optimum
        ("wqmix", "cw_qmix", 12, SMALL_ALPHA),  # the optimum among close payoffs
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value),
)
def test_methods_play_these_payoffs_after_learning_on_uniform_data(game, algo, payoff, settings):
    learner, _ = learned(game, algo, seed=1, **{"updates": 1000, **settings})
    assert greedy_return(learner, game) == pytest.approx(payoff)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["cw_qmix", "ow_qmix", "qtran"])
def test_trainers_find_the_optimum_of_the_qtran_game(tmp_path, algo):
    overrides = [f"algo={algo}", "env=matrix", "env.game=qtran", "buffer.capacity=2000"]
    overrides += ["algo/optimizer=adam", "algo.optimizer.lr=3e-3"]
    trainer = solved(overrides, tmp_path, 3_000)
    assert trainer.test(episodes=1)["test/return_mean"] == 8
