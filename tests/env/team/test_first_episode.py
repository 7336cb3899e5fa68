"""What the first episode of a parallel environment has to show before anything is trained."""

from __future__ import annotations

import numpy as np
import pytest

from rltrain.env.adapt import adapted
from tests.env.team.scripted import Scripted, Stateful


class OnlyObservations(Scripted):
    def reset(self, seed=None, options=None):
        return super().reset(seed)[0]


class WithoutInfos(Scripted):
    def reset(self, seed=None, options=None):
        return super().reset(seed)[0], None


class FailingReset(Scripted):
    def reset(self, seed=None, options=None):
        raise RuntimeError("no display")


class StateIsAnArray(Scripted):
    state = np.zeros(2)


class StateIsADict(Scripted):
    def state(self):
        return {"t": self.t}


class StateWithABug(Scripted):
    def state(self):
        return self.posiiton


class FailingState(Scripted):
    def state(self):
        raise RuntimeError("no map")


class UnsavableState(Scripted):
    def state_dict(self):
        return {"rng": np.random.default_rng(0)}

    def load_state_dict(self, state):
        """Take it back."""


REFUSED = {
    OnlyObservations: r"reset\(\) of scripted returned dict: expected \(observations, infos\), two",
    WithoutInfos: r"reset\(\) of scripted returned \(dict, NoneType\): expected \(observations,",
    FailingReset: "scripted cannot begin an episode: RuntimeError: no display",
    StateIsAnArray: r"scripted has an attribute state, which hides .* Rename it",
    StateIsADict: r"state\(\) of scripted returned dict: expected an array of numbers",
    StateWithABug: r"state\(\) of scripted failed: AttributeError: .*posiiton",
    FailingState: r"state\(\) of scripted failed: RuntimeError: no map",
    UnsavableState: r"state_dict\(\) of scripted cannot be saved: rng: Generator .*plain values",
}


@pytest.mark.parametrize("env", REFUSED, ids=lambda env: env.__name__)
def test_what_is_wrong_is_said_in_one_sentence(env):
    with pytest.raises(ValueError, match=REFUSED[env]):
        adapted(env())


def test_an_environment_below_a_wrapper_may_have_no_state():
    class Wrapper(Scripted):
        inner = object()

        def state(self):
            return self.inner.state()

    assert adapted(Wrapper()).spec.state_dim == 4


def test_the_size_of_the_environments_own_state():
    assert adapted(Stateful()).spec.state_dim == 1
