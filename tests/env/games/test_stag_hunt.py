"""Stag hunt: who catches what, what it pays, who sees what; episodes and their state."""

import numba
import numpy as np
import pytest

from rltrain.env.drawings import BLUE, CELL, GREEN, ORANGE
from rltrain.env.games import stag_hunt
from rltrain.env.games.__main__ import compile_kernels
from rltrain.env.games.stag_hunt import StagHunt

SETTINGS = {
    **{"n_agents": 8, "n_stags": 8, "n_hares": 0, "size": 10, "sight": 2, "reward_stag": 10.0},
    **{"reward_hare": 1.0, "miscapture": -2.0, "time_limit": "bootstrap", "max_episode_steps": 200},
}
RIGHT, DOWN, LEFT, UP, STAY, CATCH = range(6)


def hunt(agents, prey, n_envs=1, **settings):
    """A begun hunt with everybody where they are said to be."""
    n = {"n_agents": len(agents), "n_stags": len(prey), "size": 6}
    env = StagHunt(n_envs=n_envs, **{**SETTINGS, **n, **settings})
    env.reset(lambda e, k: 7)
    env._agents[:], env._prey[:] = agents, prey
    env._grid[:] = 0
    for row, column in agents:
        env._grid[:, row, column, 0] = 1
    for i, (row, column) in enumerate(prey):
        env._grid[:, row, column, 1 if i < env._n_stags else 2] = 1
    env._observe()
    return env


CORNER = [(0, 1), (1, 0)]  # beside the cell (0, 0), whose prey cannot move


def test_images_have_agents_and_prey_in_their_cells():
    ((image,),) = hunt(CORNER, [(0, 0), (3, 3)], n_stags=1, n_hares=1, size=6).render([0])
    corner = image[3::CELL, 12::CELL].tolist()  # above the letters, inside squares and discs
    colors = {tuple(c): (i, j) for i, row in enumerate(corner) for j, c in enumerate(row)}
    assert (colors[ORANGE], colors[GREEN]) == ((0, 0), (3, 3))
    assert image.shape == (6 * CELL + 1, 6 * CELL + 1, 3)
    assert (image[12::CELL, 12::CELL] == BLUE).all(-1)[tuple(zip(*CORNER, strict=True))].all()


def test_two_agents_catch_a_stag_and_freeze():
    env = hunt([*CORNER, (5, 5)], [(0, 0), (3, 3)])
    reward, terminated = env.step(np.array([[CATCH, CATCH, STAY]]))
    assert (reward.tolist(), terminated.tolist()) == ([[10]], [False])
    assert (env._free.tolist(), env._grid[0, :2, :2].sum()) == ([[0, 0, 1]], 0)
    assert env.avail_actions[0, 0].tolist() == [0, 0, 0, 0, 1, 0]
    assert not env.obs[0, 0].any()


def test_one_agent_that_catches_alone_pays_the_penalty():
    env = hunt([*CORNER, (5, 5)], [(0, 0)], miscapture=-2.0)
    reward, _ = env.step(np.array([[CATCH, STAY, STAY]]))
    assert reward.tolist() == [[-2]]
    assert env._alive.all()


def test_a_hare_needs_one_agent():
    env = hunt([*CORNER, (5, 5)], [(3, 3), (0, 0)], n_stags=1, n_hares=1)
    assert env.step(np.array([[CATCH, STAY, STAY]]))[0].tolist() == [[1]]
    assert env._free.tolist() == [[0, 1, 1]]


@pytest.mark.parametrize("agents", [CORNER, [*CORNER, (5, 5)]])
def test_the_hunt_ends_with_the_last_prey_or_the_last_free_agent(agents):
    env = hunt(agents, [(0, 0)] if len(agents) == 3 else [(0, 0), (3, 3)])
    _, terminated = env.step(np.array([[CATCH, CATCH, STAY][: len(agents)]]))
    assert (terminated.tolist(), env.last.tolist()) == ([True], [True])


def test_the_time_limit_truncates():
    env = hunt(CORNER, [(4, 4)], max_episode_steps=2)
    found = [(env.step(np.array([[STAY, STAY]]))[1][0], env.last[0]) for _ in range(3)]
    assert found == [(False, False), (False, True), (False, False)]


def test_agents_move_but_not_onto_others_or_out_of_the_grid():
    env = hunt([(0, 0), (0, 1)], [(5, 5)])
    env.step(np.array([[RIGHT, STAY]]))
    assert env._agents[0].tolist() == [[0, 0], [0, 1]]
    env.step(np.array([[DOWN, RIGHT]]))
    assert (env._agents[0].tolist(), env._grid[0, :, :, 0].sum()) == ([[1, 0], [0, 2]], 2)


def test_moves_out_of_the_grid_and_catching_nothing_are_not_available():
    env = hunt([*CORNER, (5, 5)], [(0, 0)])
    assert env.avail_actions[0].tolist() == [
        [1, 1, 1, 0, 1, 1],
        [1, 1, 0, 1, 1, 1],
        [0, 0, 1, 1, 1, 0],
    ]


def test_an_agent_sees_the_cells_around_it_and_the_state_is_the_grid():
    env = hunt(CORNER, [(0, 0)], sight=1)
    seen = env.obs[0, 0].reshape(3, 3, 3)  # around (0, 1)
    assert seen[0].sum() == 0  # outside
    assert seen[1, :, 1].tolist() == [1, 0, 0]  # the stag to its left
    assert seen[:, :, 0].tolist() == [[0, 0, 0], [0, 1, 0], [1, 0, 0]]
    np.testing.assert_array_equal(env.state[0].reshape(6, 6, 3), env._grid[0])


def test_prey_moves_to_a_free_cell_next_to_it():
    env = hunt([(0, 0), (0, 1)], [(3, 3)], n_envs=64)
    env._rng[:] = np.arange(64)
    env.step(np.full((64, 2), STAY))
    cells = {tuple(cell) for cell in env._prey[:, 0].tolist()}
    assert cells == {(2, 3), (4, 3), (3, 2), (3, 4)}


def random_play(env, rng, n_steps):
    """Rewards of random available actions."""
    rewards = []
    for _ in range(n_steps):
        noise = rng.random(env.avail_actions.shape) * env.avail_actions
        rewards.append(env.step(noise.argmax(-1))[0].copy())
    return np.stack(rewards)


def test_equal_seeds_give_equal_episodes_and_others_differ():
    env = StagHunt(n_envs=3, **SETTINGS)
    env.reset(lambda e, k: e // 2)
    np.testing.assert_array_equal(env.state[0], env.state[1])
    assert not np.array_equal(env.state[0], env.state[2])
    assert env._grid.sum((1, 2)).tolist() == [[8, 8, 0]] * 3


@pytest.mark.parametrize("wrong", [{"n_stags": 0}, {"size": 5}])
def test_a_grid_that_is_too_small_or_without_prey_is_refused(wrong):
    needed = {"n_stags": r"env\.n_stags=1\.", "size": r"env\.size=\d\."}[next(iter(wrong))]
    with pytest.raises(ValueError, match=needed):
        StagHunt(n_envs=1, **{**SETTINGS, **wrong})
    with pytest.raises(ValueError, match=r"at most half of the cells taken\. Increase env\.size"):
        StagHunt(n_envs=1, **{**SETTINGS, **wrong})


def test_the_installation_compiles_what_a_hunt_calls(monkeypatch):
    """Defect: the first run compiled for ten seconds."""
    called = {}

    def record(name, function):
        def call(*args):
            called.setdefault(name, set()).add(tuple(map(numba.typeof, args)))
            return function(*args)

        return call

    for name in ("begin", "advance", "observe"):
        monkeypatch.setattr(stag_hunt, name, record(name, getattr(stag_hunt, name)))
    compile_kernels()
    compiled, called = called, {}
    env = StagHunt(n_envs=3, **SETTINGS)
    env.reset(lambda e, k: e)
    random_play(env, np.random.default_rng(0), 3)
    assert called == compiled
