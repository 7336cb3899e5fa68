"""What the checker says about environments with one defect each."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.errors import UsageError
from tests.env.scripted import Plain
from tests.env.team.scripted import Scripted, Stateful


class Good(Plain):
    def step(self, action):
        self.reward = float(action)
        return super().step(action)

    def seen(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class LongMask(Good):
    action_space = spaces.MultiDiscrete([1, 2])

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"action_mask": np.array([0, 0, 0, 1])}

    def step(self, action):
        return (*super().step(action[1])[:4], {"action_mask": np.array([0, 0, 0, 1])})


class KeepsNoRewards(Scripted):
    def step(self, actions):
        obs, rewards, *rest = super().step(actions)
        return obs, {agent: rewards[agent] for agent in self.agents if agent != "b"}, *rest


def stepping(name, change, base=Good, since=1):
    """A class whose steps return what ``change`` makes of the values, from step ``since`` on."""

    def step(self, action):
        returned = base.step(self, action)
        return change(*returned) if self.t >= since else returned

    return type(name, (base,), {"step": step})


def resetting(name, reset):
    """A class with this ``reset``."""
    return type(name, (Good,), {"reset": reset})


def showing(name, seen, space=Good.observation_space):
    """A class that shows what ``seen`` returns for an environment."""
    return type(name, (Good,), {"observation_space": space, "seen": seen})


def measured(name, metric):
    """A class that reports a metric at an episode's end."""
    return stepping(name, lambda *returned: (*returned[:4], {"metrics": {metric: 1.0}}))


Nothing = type("Nothing", (), {})
Continuous = type("Continuous", (Good,), {"action_space": spaces.Box(-1, 1, (2,))})
Unseeded = resetting("Unseeded", lambda self, *, seed=None, options=None: Good.reset(self))
WithoutSeed = resetting("WithoutSeed", lambda self: Good.reset(self)[0])
WithoutInfo = resetting(
    "WithoutInfo", lambda self, *, seed=None, options=None: Good.reset(self, seed=seed)[0]
)
WHOLE = spaces.Box(0, 9, (2,), np.int64)
Late = showing("Late", lambda self: np.array([0, 90 if self.t == 4 else 1]), WHOLE)
Old = stepping("Old", lambda obs, reward, terminated, _, info: (obs, reward, terminated, info))
Numbered = stepping("Numbered", lambda obs, reward, over, *rest: (obs, reward, int(over), *rest))
LaterOutside = stepping("LaterOutside", lambda obs, *rest: (obs[:1], *rest))
NoInfo = stepping("NoInfo", lambda *returned: (*returned[:4], None), since=4)
Text = stepping("Text", lambda _, *rest: (np.array(["a", "b"]), *rest), since=4)
Objects = stepping("Objects", lambda _, *rest: (np.array([None, None]), *rest), since=4)
Listed = stepping("Listed", lambda obs, reward, over, *rest: (obs, reward, [over], *rest), since=4)
Exhausted = stepping("Exhausted", lambda *returned: next(iter([])))
ExhaustedTeam = stepping("ExhaustedTeam", lambda *returned: next(iter([])), Scripted)
TeamWithoutInfos = stepping("TeamWithoutInfos", lambda *five: (*five[:4], None), Scripted)
TeamWithoutInfo = stepping("TeamWithoutInfo", lambda *x: (*x[:4], dict.fromkeys(x[4])), Scripted)
Measured, Reserved = measured("Measured", "profit"), measured("Reserved", "return")
Unnamed, Unreadable = measured("Unnamed", ""), measured("Unreadable", "\n")


class DrawnSpace(Good):
    """Has one more number in every environment."""

    made = 2

    def __init__(self):
        DrawnSpace.made += 1
        self.n = DrawnSpace.made
        self.observation_space = spaces.Box(-1, 1, (self.n,))

    def seen(self):
        return self.np_random.uniform(-1, 1, self.n).astype(np.float32)


class WiderInTests(DrawnSpace):
    def __init__(self, training):
        DrawnSpace.made = 2 if training else 3
        super().__init__()


class MasksInTests(Good):
    def __init__(self, training):
        self.masks_actions = not training


PROBLEMS = {
    Reserved: r"info\['metrics'\] with return, which would replace that of the episode",
    Unnamed: r"returned info\['metrics'\] with the name '': expected one that can be read",
    Unreadable: r"returned info\['metrics'\] with the name '\\n': expected one that can be read",
    Exhausted: r"the environment raised StopIteration",
    ExhaustedTeam: r"the environment raised StopIteration",
    DrawnSpace: r"of tests .*Box\(4,\).*Box\(3,\).* in training.*must not draw them",
    WiderInTests: r"The environments of tests .*argument training must not change them",
    MasksInTests: r"The environments of tests .*masks_actions is True in tests, False in training",
    NoInfo: r"step\(\) returned 5 values \(.*, NoneType\): expected .* info a dict",
    Text: r"the observation of step 4 is an array <U1 \[2\], which is not in its space",
    Objects: r"the observation of step 4 is an array object \[2\], which is not in its space",
    Listed: r"terminated is list \[False\]: expected True or False",
    TeamWithoutInfos: r"returned infos as NoneType: expected a dictionary by agent",
    TeamWithoutInfo: r"gave a the info None: expected a dictionary",
    Late: r"the observation of step 4 is an array int64 \[2\] from 0 to 90, .* not in its space",
    Unseeded: r"same seed and the same actions differ \(obs, first at step 0\).*self\.np_random",
    Old: r"step\(\) returned 4 values .*: expected \(observation, reward",
    LaterOutside: r"the observation of step 1 is .* not in its space Box\(-1\.0, 1\.0, \(2,\)",
    WithoutSeed: r"unexpected keyword argument 'seed'. Expected reset\(self, ",
    LongMask: r"returned the action_mask \[0 0 0 1\]: expected 2 entries of 0 and 1",
    WithoutInfo: r"reset\(\) returned an array float32 \[2\] .*: expected \(observation, info\)",
    Continuous: r"values of discrete actions",
    Numbered: r"terminated is int 0: expected True or False",
    KeepsNoRewards: r"returned rewards of \['a'\]: expected \['a', 'b'\]",
    Nothing: r"Nothing is not an environment: it has no reset, step",
}


class Combined(Good):
    action_space = spaces.MultiDiscrete([2, 3], start=[1, 0])

    def step(self, action):
        assert self.action_space.contains(action)
        return super().step(action[1])


PAIRS = spaces.MultiDiscrete([2, 2], start=[1, 0])
MASKED_PAIRS = Scripted(actions=(PAIRS, PAIRS), mask=np.array([0, 1, 0, 0], np.int8))


@pytest.mark.parametrize(
    "env", [Good, Good(), Measured, Scripted, Stateful, lambda: Good(), Combined, MASKED_PAIRS]
)
def test_nothing_is_said_against_an_environment_that_is_right(env):
    """Several actions at a time are played as the environment takes them."""
    found = rltrain.check_env(env)
    assert found.problems == []
    assert env is not Combined or str(found) == "No problem was found."
    assert env is not MASKED_PAIRS or env.given[0]["a"].tolist() == [1, 1]


def barely(self, since=0):
    """A little too much, at the first observation or later."""
    return np.array([0, 1.0001 if self.t >= since else 1], np.float32)


BYTES = spaces.Box(0, 255, (5, 5, 2), np.uint8)
MASKED = {"obs": Good.observation_space, "action_mask": spaces.MultiBinary(2)}
Outside = showing("Outside", lambda self: Good.seen(self) + 5)
Barely = showing("Barely", barely)
BarelyLater = showing("BarelyLater", lambda self: barely(self, since=4))
BarelyWithin = showing(
    "BarelyWithin", lambda self: {"a": barely(self)}, spaces.Dict({"a": Good.observation_space})
)
Nanoseconds = showing(
    "Nanoseconds",
    lambda self: np.array([self.t, 10**18 + self.t]),
    spaces.Box(0, 2**62, (2,), np.int64),
)
MasksInObservation = showing(
    "MasksInObservation",
    lambda self: {"obs": Good.seen(self), "action_mask": np.ones(2, np.int8)},
    spaces.Dict(MASKED),
)
Codes = showing("Codes", lambda self: np.full((5, 5, 2), self.t, np.uint8), BYTES)


class ZeroSum(Scripted):
    def step(self, actions):
        obs, rewards, *rest = super().step(actions)
        return obs, {"a": rewards["b"], "b": -rewards["b"]}, *rest


HINTS = {
    Outside: r"the first observation is an array float32 \[2\] from .* not in its space .* wider",
    Barely: r"first observation is .* from 0\.0 to 1\.0001, .* Box\(-1\.0, 1\.0, .* Declare wider",
    BarelyLater: r"the observation of step 4 is .* from 0\.0 to 1\.0001, .* Declare wider bounds",
    BarelyWithin: r"the first observation is dict .*, and is learned from as it is",
    Nanoseconds: r"beyond ± 2\^24 = 16,777,216, which float32 rounds",
    MasksInObservation: r"masks no actions.*info\['action_mask'\]",
    Codes: r"images of bytes are at most 0\.0196 of the largest value",
    ZeroSum: r"rewarded \(or agents' rewards add up to 0, and need env\.reward=individual\): ",
}


@pytest.mark.parametrize("env", PROBLEMS | HINTS, ids=lambda env: env.__name__)
def test_a_defect_is_said_in_words_and_a_hint_if_it_can_be_learned_from(env):
    """Defect: what was a hint later was a problem at reset, "from 0 to 1" beyond Box(0, 1)."""
    found = rltrain.check_env(env)
    assert bool(found.problems) == (env in PROBLEMS)
    assert len(found.hints) == 1 or env not in (Nanoseconds, MasksInObservation)
    with pytest.raises(AssertionError, match=(PROBLEMS | HINTS)[env]):
        raise AssertionError(str(found))


@pytest.mark.parametrize(("id", "steps"), [("Acrobot-v1", 500), ("CliffWalking-v1", 600)])
def test_a_limit_beyond_the_steps_that_are_played_is_a_limit(id, steps):
    """Defect: "no episode ended": the 500th step's end was not counted, later ones not played."""
    found = rltrain.check_env(partial(gymnasium.make, id, max_episode_steps=steps))
    assert "no episode ended" not in str(found)


Endless = stepping("Endless", lambda obs, *_: (200 * obs, 0.0, False, False, {}))


def test_a_factory_that_returns_one_object_twice_is_found():
    """Defect: only training refused it."""
    env = Good()
    (problem,) = rltrain.check_env(lambda: env).problems
    assert problem.startswith("The environment factory returned the same Good in two calls")
    assert not rltrain.check_env(env).problems


def test_what_is_hard_to_learn_from_is_a_hint():
    found = rltrain.check_env(Endless)
    assert len(found.hints) == 4
    said = str(found)
    for part in ("no episode ended", "as large as", "never rewarded"):
        assert part in said


def test_the_command_checks_any_environment(command, capsys):
    assert command("mode=doctor", "env=two_step") == 0
    said = capsys.readouterr().out
    sizes = "2 agents, 2 actions, observations [3], state 3, 1 reward, episodes of at most 2 steps"
    assert sizes in said
    assert "No problem was found." in said


def test_the_command_fails_for_an_environment_with_a_problem(command, capsys):
    gymnasium.register("Unseeded-v0", entry_point=Unseeded)
    assert command("mode=doctor", "env=gymnasium", "env.id=Unseeded-v0") == 2
    said = capsys.readouterr().out
    assert "1 agent, 2 actions" in said
    assert "episodes without a known limit (env.max_episode_steps sets one)" in said
    assert "Problem: two episodes with the same seed" in said


def test_the_command_answers_an_environment_that_cannot_be_made_in_one_paragraph(command):
    with pytest.raises(UsageError, match=r"env\.id=Xyzzy-v0 cannot be created: "):
        command("mode=doctor", "env=gymnasium", "env.id=Xyzzy-v0")
