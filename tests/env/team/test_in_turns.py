"""AEC environments, made parallel: their own state and drawing, and what PettingZoo refuses."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.utils import OrderEnforcingWrapper

from rltrain.env.gymnasium import adapted
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError
from rltrain.types import Drawing
from tests.env.scripted import Scripted as Single
from tests.env.team.scripted import Turns

HELD = ("agents", "rounds", "_cumulative_rewards", "rewards", "terminations", "truncations")
HELD += ("infos", "agent_selection")
DRAWING = Drawing({"bounds": [0, 0, 1, 1]}, [{}], {"x": np.zeros(1), "y": np.zeros(1)})


class Saved(Turns):
    def state_dict(self):
        return copy.deepcopy({name: getattr(self, name) for name in HELD})

    def load_state_dict(self, state):
        vars(self).update(copy.deepcopy(state))


class InTheMiddle(Turns):
    """b ends when a acts."""

    def step(self, action):
        self.terminations["b"] |= self.agent_selection == "a"
        super().step(action)


def played(env, n):
    steps = [env.step(np.ones(3, int)) for _ in range(n)]
    return [(seen.obs.tolist(), reward.tolist(), *ends) for seen, reward, *ends, _ in steps]


def test_its_own_state_is_saved_and_continued():
    """Defect: the conversion counted as a wrapper, and the open episode was dropped."""
    one, other = adapted(Saved()), adapted(Saved())
    one.reset(3)
    for n in (1, 2):  # before and after a leaves
        played(one, n)
        other.reset(0)
        other.load_state_dict(one.state_dict())
        assert other.env.agents == one.env.agents
    assert played(other, 2) == played(one, 2)
    assert adapted(OrderEnforcingWrapper(Saved())).state_dict() is None


def drawn(kind, *given, **keywords):
    return type("Drawn", (kind,), {"drawing": lambda self: DRAWING})(*given, **keywords)


def single(actions):
    several = isinstance(actions, spaces.Tuple)
    space = spaces.Tuple([spaces.Discrete(2)] * 2) if several else spaces.Discrete(2)
    return drawn(Single, space, [space.sample()], actions=actions)


@pytest.mark.parametrize(
    "make",
    [
        lambda: drawn(Turns),
        lambda: OrderEnforcingWrapper(drawn(Turns)),
        lambda: single(spaces.Discrete(2)),
        lambda: gymnasium.wrappers.TimeLimit(single(spaces.Discrete(2)), 5),
        lambda: gymnasium.wrappers.TimeLimit(single(spaces.Tuple([spaces.Discrete(2)] * 2)), 5),
    ],
    ids=["aec", "wrapped aec", "gymnasium", "wrapped gymnasium", "tuple"],
)
def test_a_drawing_is_found_below_wrappers(make):
    """Defect: only that of parallel environments was."""
    env = SyncVectorEnv(make=lambda: adapted(make()), n_envs=1)
    assert env.has_drawing
    assert env.drawing(0).looks == [{}]
    assert not adapted(Turns()).has_drawing


def test_what_pettingzoo_cannot_make_parallel_is_refused_with_the_reason():
    """Defects: 'keywords must be strings', and 'the only valid action is None'."""
    numbered = Turns()
    numbered.possible_agents = [3, 1, 2]
    with pytest.raises(ValueError, match=r"possible_agents \[3, 1, 2\].*named by strings"):
        adapted(numbered)
    env = adapted(InTheMiddle())
    env.reset(0)
    with pytest.raises(EnvError, match=r"action is None.*at the end of a cycle"):
        played(env, 1)


@pytest.mark.parametrize("rate", ["fast", -3, float("inf"), [30]])
def test_a_frame_rate_that_is_none_is_refused(rate):
    env = single(spaces.Discrete(2))
    env.metadata, env.render_mode = {"render_fps": rate}, "rgb_array"
    with pytest.raises(ValueError, match=r"render_fps .*in its metadata: expected images per sec"):
        adapted(env)
