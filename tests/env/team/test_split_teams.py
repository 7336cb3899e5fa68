"""Games of two teams whose environments return something else, or whose agents come late."""

import numpy as np
import pytest
from gymnasium import spaces

from rltrain.env.env_options import EnvOptions
from rltrain.env.team.team_names import Teams
from rltrain.env.team.two_teams import TwoTeamEnv
from rltrain.errors import EnvError
from tests.env.team.scripted import Scripted


def began(env):
    teams = TwoTeamEnv(env, EnvOptions(), Teams("a"))
    teams.reset(7)
    return teams


REFUSED = {  # by what is said: what ``step`` makes of what it returned
    r"step must return \(.*got None": lambda returned: None,
    r"step must return \(.*got \(": lambda returned: returned[:4],
    "returned terminated as bool": lambda returned: (*returned[:2], False, *returned[3:]),
    "returned infos as NoneType": lambda returned: (*returned[:4], None),
    r"terminated of \[\], without \['b'\]": lambda r: (*r[:2], {"a": False}, *r[3:]),
}


@pytest.mark.parametrize("other", [-1, 1], ids=["builtin", "commanded"])
@pytest.mark.parametrize("said", REFUSED)
def test_what_a_step_returns_is_refused_as_without_opponents(said, other):
    """Defect: "'NoneType' object is not iterable", and so on."""
    teams, step = began(env := Scripted()), Scripted.step
    env.step = lambda actions: REFUSED[said](step(env, actions))
    with pytest.raises(EnvError, match=said):
        teams.step(np.array([1, other]))


def test_one_number_is_the_reward_of_the_team():
    """Defect: "'float' object has no attribute 'items'"."""
    teams, step = began(env := Scripted()), Scripted.step
    env.step = lambda actions: (step(env, actions)[0], 2.5, *step(env, actions)[2:])
    assert teams.step(np.array([1, 1]))[1].tolist() == [2.5]


@pytest.mark.parametrize("other", [-1, 3], ids=["builtin", "commanded"])
def test_a_team_that_comes_late_acts_from_then_on_as_its_spaces_say(other):
    """Defects: "began without an agent"; an export's actions that were not in their space."""

    class Late(Scripted):
        def reset(self, seed=None, options=None):
            obs, infos = super().reset(seed)
            self.agents = ["a"]
            return {"a": obs["a"]}, {"a": infos["a"]}

        def step(self, actions):
            assert all(self.action_space(a).contains(chosen) for a, chosen in actions.items())
            obs, *others, infos = super().step(actions)
            self.agents = self.agents and ["a", "b"]
            return {**self.seen("ab"), **obs}, *others, {"b": {"action_mask": self.mask}, **infos}

    mask = np.array([0, 0, 0, 1], np.int8)
    acts = spaces.Discrete(4), spaces.MultiDiscrete([2, 2], start=[1, 0])
    teams = began(env := Late(actions=acts, mask=mask))
    assert not teams.seen_by_others.obs.any()
    assert [teams.step(np.array([3, other]))[2] for _ in range(3)] == [False, False, True]
    assert [str(given.get("b")) for given in env.given] == ["None", "[2 1]", "[2 1]"]
