"""Gymnasium environments of several agents, as parallel environments."""

import copy
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rltrain.env.env_options import EnvOptions
from rltrain.env.gymnasium import adapted
from rltrain.errors import EnvError
from tests.env.scripted import Sampled


class Leaving(gymnasium.Env):
    """Two agents, of which the first one leaves at once; their actions begin at 1 and at [1, 0]."""

    observation_space = spaces.Tuple([spaces.Discrete(2)] * 2)
    action_space = spaces.Tuple(
        [spaces.MultiDiscrete([2, 2], start=[1, 0]), spaces.Discrete(2, start=1)]
    )

    def reset(self, *, seed=None):  # defect: options, which are never given, were refused
        self.given = []
        return (0, 0), {}

    def step(self, action):
        self.given.append(copy.deepcopy(action))
        action[0][:] -= 9  # in place
        return (0, 0), [0.0, 0.0], [True, False], [False, False], {}


def test_an_agent_that_has_left_is_given_its_first_action():
    env = Leaving()
    team = adapted(env)
    team.reset(0)
    for _ in range(3):
        team.step(np.array([0, 1]))
    for pair, one in env.given[1:]:
        assert (np.asarray(pair).tolist(), one) == ([1, 0], 2)
        assert env.action_space.contains((pair, one))


class Board(gymnasium.Env):
    """One agent that sees a matrix and has two actions at a time."""

    observation_space = spaces.Box(0, 9, (2, 3))
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        return np.arange(6, dtype=np.float32).reshape(2, 3), {}


def test_the_state_of_factored_actions_is_the_observation_once():
    team = adapted(Board(), EnvOptions(factored=True))
    assert team.spec.state_dim == 6
    assert team.reset(0).state.tolist() == [0, 1, 2, 3, 4, 5]


class MaskedBoard(Board):
    """A mask of all combinations, not one for each component."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"action_mask": np.ones(4)}


class MaskedTuple(Leaving):
    """One mask for two agents."""

    def reset(self, *, seed=None, options=None):
        return (0, 0), {"action_mask": [[1, 1]]}


@pytest.mark.parametrize(("make", "factored"), [(MaskedBoard, True), (MaskedTuple, False)])
def test_masks_that_are_not_one_for_each_agent_are_refused(make, factored):
    said = r"info\['action_mask'\] is .*: expected a tuple of 2, one for each of \['"
    with pytest.raises(ValueError, match=said):
        adapted(make(), EnvOptions(factored=factored))


class Pushed(Sampled):
    """Returns the ``ends`` that a test sets; two actions at a time, or those of two agents."""

    observation_space, action_space = spaces.Box(0, 9, (3,)), spaces.MultiDiscrete([2, 2])
    ends = False

    def step(self, action):
        return self.seen(), 1.0, self.ends, np.array([False]), {}


class PushedTeam(Pushed):
    observation_space = spaces.Tuple([Pushed.observation_space] * 2)
    action_space = spaces.Tuple([spaces.Discrete(2)] * 2)


@pytest.mark.parametrize("env", [Pushed, PushedTeam])
def test_a_team_in_one_environment_ends_where_it_says_so(env):
    """Defect: terminated=[False] ended the episode."""
    team = adapted(env(), EnvOptions(factored=env is Pushed))
    team.reset(0)
    for ends in (False, np.array([False]), np.bool_(False), 0):
        team.env.env.ends = ends
        assert team.step(np.zeros(2, int))[2:4] == (False, False)
    for ends in ([False], {"__all__": False}, float("nan"), None, [False] * 3):
        team.env.env.ends = ends
        with pytest.raises(EnvError, match=r"terminated(=.* True or False| is .* a tuple)"):
            team.step(np.zeros(2, int))
    team.env.env.ends = np.array([True])
    assert team.step(np.zeros(2, int))[2:4] == (True, False)


def test_a_team_without_numbers_to_observe_is_refused():
    """Defect: the first update diverged, with advice on the learning rate."""

    class Blind(PushedTeam):
        observation_space = spaces.Tuple([spaces.Box(0, 1, (0,))] * 2)

    with pytest.raises(ValueError, match=r"Blind has observations .* which have no numbers"):
        adapted(Blind())


SEEN = (0, 0), {}
STEPPED = (0, 0), [0.0, 0.0], [False, False], [False, False], {}


def stepped(place, value):
    return (*STEPPED[:place], value, *STEPPED[place + 1 :])


@pytest.mark.parametrize(
    ("method", "returned", "said"),
    [
        ("reset", None, r"reset must return \(observation, info\), got None"),
        ("reset", ((0, 0, 0), {}), r"the observation is \(0, 0, 0\): expected a tuple of 2, one"),
        ("reset", (None, {}), r"the observation is None: expected a tuple of 2"),
        ("step", None, r"step must return \(observation, reward, .*, got None"),
        ("step", STEPPED[:4], r"step must return \(observation, reward, "),
        ("step", stepped(0, (0,)), r"the observation is \(0,\): expected a tuple of 2"),
        ("step", stepped(0, 1), r"the observation is 1: expected a tuple of 2"),
        ("step", stepped(1, [0.0] * 3), r"the reward is .* expected a tuple of 2, one"),
        ("step", stepped(1, None), r"the reward None: expected one number"),
        (
            "step",
            stepped(2, [True] * 3),
            r"terminated is .* expected a tuple of 2, one for each of",
        ),
        ("step", stepped(3, []), r"truncated=\[\]: expected True or False"),
        ("step", stepped(4, None), r"step must return "),
    ],
)
def test_what_is_not_of_each_agent_is_named(method, returned, said):
    """Defect: errors of Python, such as 'zip() argument 2 is longer than argument 1'."""
    methods = {"reset": lambda self, *, seed=None, options=None: SEEN}
    methods["step"] = lambda self, action: STEPPED
    wrong = {**methods, method: lambda self, *given, **named: returned}
    env = type("Wrong", (Leaving,), methods)()
    team = adapted(env)
    team.reset(0)
    vars(env).update({method: partial(wrong[method], env)})
    with pytest.raises(EnvError, match=said):
        team.reset(0) if method == "reset" else team.step(np.array([0, 1]))
