"""Published benchmarks: time limits truncate, opponents play themselves, gaps are said in words."""

import importlib.util

import numpy as np
import pytest

from rltrain.env import lbf_env, magent_env, mpe_env, rware_env
from rltrain.env.drawings import BLUE, CELL
from rltrain.env.team.benchmarks import flee, toward
from tests.marks import each_once

COMMON = {"n_envs": 1, "kwargs": {}, "reward": "sum", "time_limit": "bootstrap"}
MPE = {**COMMON, "record": False, "max_episode_steps": 25}
MAGENT = {**COMMON, "record": False, "kwargs": {"map_size": 16}}


def last_step(env, n_steps):
    """What the step after ``n_steps`` - 1 idle ones says: (terminated, last)."""
    env.reset(lambda e, k: 3)
    idle = np.zeros((1, env.spec.n_agents), np.int64)
    for _ in range(n_steps):
        assert not env.last[0]
        _, terminated = env.step(idle)
    return bool(terminated[0]), bool(env.last[0])


LBF = {**COMMON, "id": "Foraging-8x8-2p-2f-coop-v3"}
RWARE = {**COMMON, "id": "rware-tiny-2ag-v2"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("make", "options", "sizes"),
    [
        (mpe_env, {**MPE, "game": "spread"}, (3, 5, 18)),
        (lbf_env, LBF, (2, 6, 12)),
        (rware_env, RWARE, (2, 5, 71)),
    ],
)
def test_time_limits_truncate(make, options, sizes):
    env = make(**{**options, "max_episode_steps": 7})
    assert (env.spec.n_agents, env.spec.n_actions, *env.spec.obs_shape) == sizes
    assert env.spec.max_steps == 7
    assert last_step(env, 7) == (False, True)


@pytest.mark.parametrize(("make", "options"), [(lbf_env, LBF), (rware_env, RWARE)])
def test_grids_are_drawn_without_a_display(make, options):
    env = make(**{**options, "max_episode_steps": 7})
    env.reset(lambda e, k: 3)
    assert env.frames_per_second == 5
    ((image,),) = env.render([0])
    agents = (image == BLUE).all(-1)
    cells = agents[:-1, :-1].reshape(image.shape[0] // CELL, CELL, -1, CELL).any((1, 3))
    assert cells.sum() == env.spec.n_agents


SIDES = [("tag", {}, 3, "adversary"), ("adversary", {}, 2, "agent")]
SIDES += [
    ("tag", {"num_good": good, "num_adversaries": n, "num_obstacles": 1}, n, "adversary")
    for good in (1, 2, 4)
    for n in (1, 2, 5)
]
SIDES += [("adversary", {"N": n}, n, "agent") for n in (2, 3, 5)]


@each_once(sides=SIDES, two_sided=[False, True])
def test_opponents_are_no_agents_of_the_team(sides, two_sided):
    game, kwargs, n, side = sides
    env = mpe_env(**{**MPE, "game": game, "two_sided": two_sided, "kwargs": kwargs})
    assert [name for name, *_ in env.spec.agents] == [f"{side}_{i}" for i in range(n)]
    assert last_step(env, 25) == (False, True)


def test_each_of_several_prey_flees_from_the_predators_only():
    env = mpe_env(**{**MPE, "game": "tag", "kwargs": {"num_good": 2}}).envs[0].env
    env.reset(seed=0)
    *predators, prey, other = env.unwrapped.world.agents
    for one, x in zip([*predators, prey, other], [-0.5, -0.5, -0.5, 0.0, 0.1], strict=True):
        one.state.p_pos = np.array([x, 0.0])
    assert [flee(env, name, None) for name in ("agent_0", "agent_1")] == [2, 2]


def distance_of_prey(scripted):
    """How far the nearest predator is from the prey after an episode in which none moves."""
    env = mpe_env(**{**MPE, "game": "tag", "two_sided": not scripted, "max_episode_steps": 12})
    rng = np.random.default_rng(0)
    if not scripted:
        env.other_side.commanded[:] = True
    found = []
    for seed in range(8):
        env.reset(lambda e, k, seed=seed: seed)
        for _ in range(12):
            if not scripted:
                env.other_side.action[:] = rng.integers(5, size=(1, 1))
            env.step(np.zeros((1, 3), np.int64))
        *predators, prey = env.envs[0].env.unwrapped.world.agents
        away = [np.linalg.norm(prey.state.p_pos - each.state.p_pos) for each in predators]
        found.append(min(away))
    return np.mean(found)


def test_the_scripted_prey_flees():
    assert distance_of_prey(scripted=True) > distance_of_prey(scripted=False) + 0.1


@pytest.mark.parametrize(("x", "y", "action"), [(-2, 1, 1), (2, 1, 2), (1, -2, 3), (1, 2, 4)])
def test_directions_are_mpes_actions(x, y, action):
    assert toward(np.array([x, y])) == action


def test_magent_learns_one_side():
    env = magent_env(**MAGENT, game="battle", max_episode_steps=9)
    assert all(name.startswith("red") for name in env.envs[0].env.possible_agents)
    assert env.spec.obs_shape == (5, 13, 13)


@pytest.mark.parametrize("make", [lbf_env, rware_env])
def test_an_unknown_id_is_refused(make):
    with pytest.raises(ValueError, match=r"env\.id=Forage-v9 cannot be created"):
        make(**{**COMMON, "id": "Forage-v9", "max_episode_steps": 5})


def test_keywords_that_a_game_does_not_have_are_refused():
    with pytest.raises(ValueError, match=r"env=mpe cannot be created: TypeError.*nonsense"):
        mpe_env(**{**MPE, "game": "spread", "kwargs": {"nonsense": 1}})


@pytest.mark.parametrize(
    ("make", "options", "package"),
    [
        (mpe_env, {**MPE, "game": "spread"}, "mpe2"),
        (lbf_env, {**LBF, "max_episode_steps": 5}, "lbforaging"),
        (rware_env, {**RWARE, "max_episode_steps": 5}, "rware"),
    ],
)
def test_a_missing_package_names_the_extra(make, options, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None)
    with pytest.raises(ValueError, match=rf"env=\w+ needs {package}, .*pip install .*{package}"):
        make(**options)
