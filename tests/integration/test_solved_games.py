"""Games with known solutions are solved: matrix games, what needs memory, what needs both keys of a
Dict observation.
"""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rltrain
from benchmarks.matrix_games import greedy_return, learned
from rltrain.api import settings_from
from rltrain.env.games.matrix import PAYOFFS
from rltrain.types import Clock

QUIET = ["hardware.threads=1", "logger.console=false", "logger.wandb.mode=disabled"]
UNIFORM = ["algo.exploration.start=1", "algo.exploration.end=1", "test.interval=1000000"]
UNIFORM += ["hardware.threads=1", "save.interval=100000000", "log.interval=1000000"]


def joint_values(trainer, obs, state):
    """Q_tot of every joint action at the first step of a two-agent game, [A, A]."""
    online = trainer.learner.online
    hidden = torch.zeros(1, 2, online.agents.hidden_dim)
    with torch.no_grad():
        q, _ = online.agents.step(torch.tensor(obs)[None], torch.full((1, 2), -1), hidden)
        n = q.shape[-1]
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
def test_qmix_solves_the_two_step_game_and_learns_it_exactly(tmp_path):
    trainer = solved(["algo=qmix", *TWO_STEP], tmp_path, 3_000)
    assert trainer.test(episodes=4)["test/return_mean"] == 8
    trainer.run(14_000)
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


FAST = ["algo/optimizer=adam", "algo.optimizer.lr=3e-3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "game", "payoff", "env_steps", "words"),
    [
        ("qmix", "small_penalty", 12, 12_000, []),  # the optimum behind small penalties
        ("iql", "qtran", 0, 12_000, []),  # the safe cell
        *((algo, "qtran", 8, 3_000, FAST) for algo in ("cw_qmix", "ow_qmix", "qtran")),
    ],
)
def test_trainers_play_these_payoffs(tmp_path, algo, game, payoff, env_steps, words):
    overrides = [f"algo={algo}", "env=matrix", f"env.game={game}", "buffer.capacity=2000", *words]
    trainer = solved(overrides, tmp_path, env_steps)
    assert trainer.test(episodes=1)["test/return_mean"] == payoff


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


BOTH = [
    *("algo=dqn", "algo/network=multi_input", "algo.network.filters=[[4,3,3]]"),
    *("algo.network.vector_sizes=[8]", "algo.network.hidden_sizes=[32]", "algo.optimizer.lr=5e-3"),
    *("algo.learning_starts=100", "algo.updates_per_env_step=0.5"),
    *("algo.exploration.env_steps=500", "hardware.n_envs=2", "buffer.capacity=5000", *QUIET),
    *("total_env_steps=1000", "test.interval=10_000", "test.episodes=40", "test.n_envs=4"),
]


class Exclusive(gymnasium.Env):
    """One step: action 1 is right if either the image's right half is bright or the number is
    positive, but not both.
    """

    observation_space = spaces.Dict(
        {"image": spaces.Box(0, 255, (6, 6, 1), np.uint8), "sign": spaces.Box(-1, 1, (1,))}
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.right, self.positive = self.np_random.integers(0, 2, 2).tolist()
        return self.seen(), {}

    def seen(self):
        image = np.zeros((6, 6, 1), np.uint8)
        image[:, 3 * self.right : 3 * self.right + 3] = 255
        return {"image": image, "sign": np.array([1 if self.positive else -1], np.float32)}

    def step(self, action):
        reward = float(action == self.right ^ self.positive)
        return self.seen(), reward, True, False, {}


@pytest.mark.slow
def test_image_and_number_are_learned_together(own_folder):
    trainer = rltrain.make_trainer(BOTH, own_folder / "run", env=Exclusive)
    trainer.start()
    trainer.run(1000)
    stored = trainer.buffer.store.arrays["obs"]
    assert (stored.dtype, stored.shape[1]) == (np.uint8, 36 + 4)
    assert trainer.test()["test/return_mean"] == 1.0
    trainer.save("weights")
    policy = rltrain.load_policy(own_folder / "run")
    game = Exclusive()
    for seed in range(8):
        obs, _ = game.reset(seed=seed)
        assert policy.act(obs) == game.right ^ game.positive


def test_pixels_for_a_network_without_convolutions_are_warned_about(own_folder, caplog):
    overrides = [word for word in BOTH if "network" not in word]
    rltrain.make_trainer(overrides, own_folder / "run", env=Exclusive)
    assert "algo/network=multi_input has convolutions for them" in caplog.text


def test_observations_without_keys_are_refused_before_anything_is_written(command):
    overrides = [word for word in BOTH if "filters" not in word]
    with pytest.raises(rltrain.errors.UsageError, match="encoder per key of Dict observations"):
        command("env=cartpole", "tuned=none", *overrides)


class Recall(gymnasium.Env):
    """Shows a cue, then nothing for four steps; the last action has to repeat the cue."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.t = int(self.np_random.integers(2)), 0
        return np.float32([2 * self.cue - 1, 0]), {}

    def step(self, action):
        self.t += 1
        end = self.t == 5
        return np.float32([0, self.t / 5]), float(end and action == self.cue), end, False, {}


def test_the_settings_of_r2d2_are_those_of_the_paper():
    plain = settings_from(["algo=r2d2"]).plain
    loss, buffer = plain["algo"]["loss"], plain["buffer"]
    assert (loss["gamma"], loss["n_step"]) == (0.997, 5)
    assert (loss["double"], loss["rescale"]) == (True, 1e-3)
    assert (buffer["sampler"], buffer["first_hidden"]) == ("proportional", "stored")
    assert (buffer["alpha"], buffer["beta"], buffer["beta_end"]) == (0.9, 0.6, 0.6)
    assert (buffer["burn_in"] * 2, buffer["eta"]) == (buffer["sequence_length"], 0.9)


@pytest.mark.slow
def test_windows_of_r2d2_have_stored_states_a_burn_in_and_priorities(tmp_path):
    overrides = ["algo=r2d2", "env=cartpole", "hardware.n_envs=2", "algo.learning_starts=64"]
    trainer = rltrain.make_trainer([*QUIET, *overrides], run_dir=tmp_path)
    trainer.run(200)
    assert trainer.clock.updates > 0
    batch = trainer.buffer.sample(8, Clock())
    assert batch.hidden.abs().max() > 0
    assert int(batch.warm_up.max()) == 8
    assert batch.eta == 0.9
    assert len(batch.weight.unique()) > 1  # importance weights of unequal priorities
    trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "lowest", "highest"), [("r2d2", 0.95, 1), ("dqn", 0, 0.75)])
def test_r2d2_solves_what_needs_memory(tmp_path, algo, lowest, highest):
    overrides = [*QUIET, f"algo={algo}", "total_env_steps=4000", "hardware.n_envs=4"]
    overrides += ["algo.learning_starts=200", "algo.exploration.env_steps=1500"]
    overrides += ["test.episodes=50", "algo.optimizer.lr=3e-3", "algo.target_update.env_steps=200"]
    if algo == "r2d2":
        overrides += ["buffer.sequence_length=4", "buffer.burn_in=2", "algo.network.hidden_dim=16"]
    trainer = rltrain.make_trainer(overrides, env=Recall, run_dir=tmp_path)
    assert lowest <= trainer.train()["test/return_mean"] <= highest
