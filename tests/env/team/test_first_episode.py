"""What the first episode of a parallel environment has to show before anything is trained."""

import numpy as np
import pytest
from pettingzoo.utils import BaseParallelWrapper, OrderEnforcingWrapper

import rltrain
from rltrain.env import check
from rltrain.env.gymnasium import adapted
from rltrain.env.team.team_names import Teams
from tests.env.team.scripted import Scripted, Stateful, Turns


def raising(text):
    def method(self, **given):
        raise RuntimeError(text)

    return method


TWICE = property(lambda self: ["a", "a"], lambda self, names: None)


def no_agents(self, **given):
    self.possible_agents = self.agents = []
    return {}, {}


def forgets(self, **given):
    returned = Scripted.reset(self, **given)
    del self.agents
    return returned


REFUSED = {  # by what is said: the methods of an environment
    r"reset\(\) of scripted returned dict: expected \(observations, infos\), two": {
        "reset": lambda self, **given: Scripted.reset(self, **given)[0]
    },
    r"reset\(\) of scripted returned \(dict, NoneType\): expected \(observations,": {
        "reset": lambda self, **given: (Scripted.reset(self, **given)[0], None)
    },
    r"scripted has no agents after reset\(\): .*self\.agents": {"reset": forgets},
    r"no possible_agents: .* Set self\.possible_agents": {"reset": no_agents},
    r"possible_agents \['a', 'a'\], with duplicates: expected a uni": {"possible_agents": TWICE},
    "scripted cannot begin an episode: RuntimeError: no display": {"reset": raising("no display")},
    r"scripted cannot begin .*'seed'\. Expected reset\(self, \*,": {"reset": lambda self: None},
    r"state\(\) of scripted returned dict: expected an array of numbers": {
        "state": lambda self: {"t": self.t}
    },
    r"state\(\) of scripted failed: AttributeError: .*posiiton": {
        "state": lambda self: self.posiiton
    },
    r"state\(\) of scripted failed: RuntimeError: no map": {"state": raising("no map")},
    r"state_dict\(\) of scripted cannot be saved: rng: Generator .*plain values": {
        "state_dict": lambda self: {"rng": np.random.default_rng(0)},
        "load_state_dict": lambda self, state: None,
    },
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_wrong_is_said_in_one_sentence(said):
    """Defect: as exceptions of their own where opponents play one of two teams."""
    own = type("Own", (Scripted,), REFUSED[said])
    for teams in (None, Teams("a")):
        with pytest.raises(ValueError, match=said):
            adapted(own(), teams=teams)


def test_an_environment_below_a_wrapper_may_have_no_state():
    class Wrapper(Scripted):
        inner = object()

        def state(self):
            return self.inner.state()

    assert adapted(Wrapper()).spec.state_dim == 4


def test_a_class_without_metadata_has_no_state_and_no_turns():
    """Defects: a state() that is not there was said to fail; AttributeError."""
    one, turns = Scripted(), Turns()
    del one.metadata, turns.metadata
    assert (adapted(one).name, adapted(one).spec.state_dim) == ("Scripted", 4)
    with pytest.raises(ValueError, match=r"cannot make it parallel: .*attribute 'metadata'"):
        adapted(turns)


def test_the_size_of_the_environments_own_state():
    assert adapted(Stateful()).spec.state_dim == 1


class Wrapped(BaseParallelWrapper):
    """One of PettingZoo's wrappers, whose ``state()`` calls that of the environment."""


class AfterReset(Scripted):
    """Knows its spaces, and keeps a dictionary named state, from the first ``reset`` on."""

    def reset(self, seed=None, options=None):
        self.state, self.known = dict.fromkeys(self.possible_agents, 0), True
        return super().reset(seed, options)

    def observation_space(self, agent):
        assert self.known
        return super().observation_space(agent)

    def action_space(self, agent):
        return super().action_space(agent if self.known else None)


class InTurns(Turns):
    """The same of agents that act in turns."""

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.state, self.known = dict.fromkeys(self.possible_agents, 0), True

    def observation_space(self, agent):
        assert self.known
        return super().observation_space(agent)


class ConstantState(Scripted):
    state = np.zeros(2)


HIDDEN = {AfterReset: 4, lambda: Wrapped(AfterReset()): 4, ConstantState: 4, InTurns: 3}
HIDDEN[lambda: OrderEnforcingWrapper(InTurns())] = 3


@pytest.mark.parametrize("make", HIDDEN)
def test_an_attribute_named_state_leaves_the_observations_as_the_state(make, monkeypatch):
    monkeypatch.setattr(check, "N_STEPS", 20)
    team = adapted(make())
    assert team.spec.state_dim == HIDDEN[make]
    first = team.reset(7)
    assert first.state.tolist() == first.obs.reshape(-1).tolist()
    found = rltrain.check_env(make)
    assert found.problems == []
    assert "has an attribute state, which hides PettingZoo's method state()" in str(found.hints)


def test_a_run_says_once_that_the_state_is_hidden(tmp_path, caplog):
    words = ["env=pettingzoo", "algo=vdn", "test.episodes=2", "test.n_envs=1", "hardware.n_envs=2"]
    rltrain.make_trainer(words, tmp_path, env=AfterReset).close()
    assert caplog.text.count("has an attribute state, which hides") == 1


def test_an_environment_may_have_nothing_to_close():
    adapted(type("Own", (Scripted,), {"close": None})()).close()
