"""Tasks of environments, in a resumed run."""

import numpy as np
import pytest

from rltrain.env import gymnasium_env, pettingzoo_env
from rltrain.env.team.adapter import TeamEnv
from rltrain.env.vector import SyncVectorEnv
from tests.env.team.scripted import Scripted
from tests.helpers import require_same_steps


class Levels(Scripted):
    """Shows its level, which a task sets from the next episode on, and has a state of its own."""

    level = 0

    def __init__(self):
        super().__init__(length=4, cut=True)
        self.metadata = {"name": "levels"}

    def seen(self, agents):
        return {name: np.array([self.level, self.t], np.float32) for name in agents}

    def state_dict(self):
        return {"t": self.t, "agents": list(self.agents)}

    def load_state_dict(self, state):
        self.t, self.agents = state["t"], list(state["agents"])


class Set(Levels):
    """The same with a method for its task."""

    def set_task(self, task):
        self.level = task["level"]


OPTIONS = {"n_envs": 2, "training": True, "record": False, "kwargs": {}}
DUEL = {"id": "tests.env.team.duel:Duel", "team": "red", "two_sided": True}
KINDS = {
    "attributes": lambda: SyncVectorEnv(make=lambda: TeamEnv(Levels()), n_envs=2),
    "method": lambda: SyncVectorEnv(make=lambda: TeamEnv(Set()), n_envs=2),
    "compiled": lambda: gymnasium_env(id="CartPole-v1", **OPTIONS),
    "gymnasium": lambda: gymnasium_env(id="CartPole-v1", compiled=False, **OPTIONS),
    "two teams": lambda: pettingzoo_env(**DUEL, **OPTIONS),
}


def seeds(e, k):
    return 1000 * e + k


def pair(kind):
    """Two times two environments, in their first episodes."""
    both = KINDS[kind](), KINDS[kind]()
    for env in both:
        env.reset(seeds)
    return both


def idle(env, n):
    """``n`` times action 0 of all agents."""
    return [np.zeros((env.n_envs, env.spec.n_agents), np.int64)] * n


def play(env, n):
    for action in idle(env, n):
        env.step(action)


@pytest.mark.parametrize("kind", ["attributes", "method"])
@pytest.mark.parametrize("n_before", [0, 6])
def test_a_resume_keeps_the_task_of_an_environment_with_a_state(kind, n_before):
    one, other = pair(kind)
    one.call("set_task", {"level": 3})
    play(one, n_before)
    one.call("set_task", {"level": 5})
    play(one, 1)
    other.load_state_dict(one.state_dict())
    require_same_steps(one, other, idle(one, 12))
    assert one.obs[0, 0, 0] == 5


TASKS = {"attributes": {"level": 3}, "method": {"level": 3}, "two teams": {"t": 3}}


@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("n_before", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_before_the_first_task_has_none(kind, n_before, continues):
    """Defect: the environments kept their later task."""
    one, other = pair(kind)
    play(one, n_before)
    saved = one.state_dict()
    one.call("set_task", TASKS.get(kind, {"gravity": 100.0}))
    play(one, 30)
    for env in (one, other):
        if not continues:
            env.restart(saved)
        env.reset(seeds)
        if continues:
            env.load_state_dict(saved)
    assert one.state_dict()["tasks"] == [None, None]
    require_same_steps(one, other, idle(one, 30))


@pytest.mark.parametrize("n_before", [0, 30])
@pytest.mark.parametrize("n_others", [0, 1])
@pytest.mark.parametrize("kind", ["attributes", "compiled", "gymnasium"])
def test_an_attribute_that_a_later_task_leaves_out_keeps_its_value(kind, n_others, n_before):
    """Defect: a resumed environment had the attributes of the last task alone."""
    first, second = {"gravity": 30.0}, {"length": 2.0}
    if kind == "attributes":
        first, second = {"level": 3}, {"metadata": {"name": "levels"}}

    one, other = pair(kind)
    play(one, 3)
    one.call("set_task", first)
    play(one, n_before)
    one.call("set_task", second)
    play(one, 30)
    for _ in range(n_others):
        other.call("set_task", {"level": 9} if kind == "attributes" else {"force_mag": 1.0})
        play(other, 30)
    other.load_state_dict(one.state_dict())
    require_same_steps(one, other, idle(one, 40))


def test_a_resumed_team_names_the_seed_of_its_episode():
    """Defect: it named that of episode 0."""
    one, other = pair("attributes")
    play(one, 6)  # one of the second episode
    other.load_state_dict(one.state_dict())
    assert other.envs[1].where() == "levels at step 1 of the episode with seed 1001"
