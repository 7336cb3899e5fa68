"""Tasks of environments, in a resumed run."""

from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from rltrain.env import gymnasium_env, pettingzoo_env
from rltrain.env.team.adapter import TeamEnv
from rltrain.env.vector import SyncVectorEnv

BOX, TWO = spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(2)


class Levels(ParallelEnv):
    """Shows its level, which a task sets from the next episode on, and has a state of its own."""

    metadata: ClassVar = {"name": "levels"}
    possible_agents: ClassVar = ["a", "b"]
    level = t = 0

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return TWO

    def reset(self, seed=None, options=None):
        self.agents, self.t = list(self.possible_agents), 0
        return self.shown(), {name: {} for name in self.agents}

    def step(self, actions):
        self.t += 1
        ends, names = self.t >= 4, self.agents
        obs = self.shown()
        self.agents = [] if ends else names
        over, never = dict.fromkeys(names, ends), dict.fromkeys(names, False)
        return obs, dict.fromkeys(names, 0.0), never, over, {name: {} for name in names}

    def shown(self):
        return {name: np.array([self.level, self.t], np.float32) for name in self.agents}

    def state_dict(self):
        return {"t": self.t, "agents": list(self.agents)}

    def load_state_dict(self, state):
        self.t, self.agents = state["t"], list(state["agents"])


class Set(Levels):
    """The same with a method for its task."""

    def set_task(self, task):
        self.level = task["level"]


@pytest.mark.parametrize("kind", [Levels, Set])
@pytest.mark.parametrize("n_before", [0, 6])
def test_a_resume_keeps_the_task_of_an_environment_with_a_state(kind, n_before):
    def play(env, n):
        seen = []
        for _ in range(n):
            env.step(np.zeros((1, 2), np.int64))
            seen.append((env.obs[0, 0].tolist(), bool(env.last[0])))
        return seen

    def made():
        env = SyncVectorEnv(make=lambda: TeamEnv(kind()), n_envs=1)
        env.reset(lambda e, k: 1000 * e + k)
        return env

    one, other = made(), made()
    one.call("set_task", {"level": 3})
    play(one, n_before)
    one.call("set_task", {"level": 5})
    play(one, 1)
    other.load_state_dict(one.state_dict())
    assert play(other, 12) == play(one, 12)


OPTIONS = {"n_envs": 2, "training": True, "record": False, "kwargs": {}}
DUEL = {"id": "tests.env.team.duel:Duel", "team": "red", "two_sided": True}
KINDS = {
    "attributes": lambda: SyncVectorEnv(make=lambda: TeamEnv(Levels()), n_envs=2),
    "method": lambda: SyncVectorEnv(make=lambda: TeamEnv(Set()), n_envs=2),
    "compiled": lambda: gymnasium_env(id="CartPole-v1", **OPTIONS),
    "gymnasium": lambda: gymnasium_env(id="CartPole-v1", compiled=False, **OPTIONS),
    "two teams": lambda: pettingzoo_env(**DUEL, **OPTIONS),
}


def play(env, n):
    action = np.zeros((2, env.spec.n_agents), np.int64)
    return [(*env.step(action), env.obs.copy(), env.last.copy()) for _ in range(n)]


TASKS = {"attributes": {"level": 3}, "method": {"level": 3}, "two teams": {"t": 3}}


@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("n_before", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_before_the_first_task_has_none(kind, n_before, continues):
    """Defect: the environments kept their later task."""
    one, other = KINDS[kind](), KINDS[kind]()
    for env in (one, other):
        env.reset(lambda e, k: 1000 * e + k)
    play(one, n_before)
    saved = one.state_dict()
    one.call("set_task", TASKS.get(kind, {"gravity": 100.0}))
    play(one, 30)
    for env in (one, other):
        if not continues:
            env.restart(saved)
        env.reset(lambda e, k: 1000 * e + k)
        if continues:
            env.load_state_dict(saved)
    assert one.state_dict()["tasks"] == [None, None]
    for mine, theirs in zip(play(one, 30), play(other, 30), strict=True):
        for x, y in zip(mine, theirs, strict=True):
            assert np.array_equal(x, y)


@pytest.mark.parametrize("n_before", [0, 30])
@pytest.mark.parametrize("n_others", [0, 1])
@pytest.mark.parametrize("kind", ["attributes", "compiled", "gymnasium"])
def test_an_attribute_that_a_later_task_leaves_out_keeps_its_value(kind, n_others, n_before):
    """Defect: a resumed environment had the attributes of the last task alone."""
    first, second = {"gravity": 30.0}, {"length": 2.0}
    if kind == "attributes":
        first, second = {"level": 3}, {"metadata": {"name": "levels"}}

    one, other = KINDS[kind](), KINDS[kind]()
    for env in (one, other):
        env.reset(lambda e, k: 1000 * e + k)
    play(one, 3)
    one.call("set_task", first)
    play(one, n_before)
    one.call("set_task", second)
    play(one, 30)
    for _ in range(n_others):
        other.call("set_task", {"level": 9} if kind == "attributes" else {"force_mag": 1.0})
        play(other, 30)
    other.load_state_dict(one.state_dict())
    for mine, theirs in zip(play(one, 40), play(other, 40), strict=True):
        for x, y in zip(mine, theirs, strict=True):
            assert np.array_equal(x, y)


def test_a_resumed_team_names_the_seed_of_its_episode():
    """Defect: it named that of episode 0."""
    one, other = (SyncVectorEnv(make=lambda: TeamEnv(Levels()), n_envs=1) for _ in range(2))
    for env in (one, other):
        env.reset(lambda e, k: k + 7)
    for _ in range(6):  # one of the second episode
        one.step(np.zeros((1, 2), np.int64))
    other.load_state_dict(one.state_dict())
    assert other.envs[0].where() == "levels at step 1 of the episode with seed 8"
