"""Action masks in the Dict observations of a team, whatever the other entries are called."""

import numpy as np
import pytest
from gymnasium import spaces

from rltrain.env.gymnasium import adapted
from rltrain.env.team.agent_spaces import NamedAgents
from tests.env.team.scripted import Scripted

OWN = spaces.Box(-1, 99, (2,))
MASK = spaces.MultiBinary(2)


class Masked(Scripted):
    """Observations are (seed, t) under ``key``, beside a mask and other entries."""

    def __init__(self, key, others):
        super().__init__()
        self.key, self.others = key, others
        entries = {key: OWN, "action_mask": MASK, **{name: spaces.Discrete(2) for name in others}}
        self.observation_spaces = dict.fromkeys(self.possible_agents, spaces.Dict(entries))

    def seen(self, agents):
        mask, others = np.array([0, 1], np.int8), dict.fromkeys(self.others, 1)
        return {
            a: {self.key: x, "action_mask": mask, **others} for a, x in super().seen(agents).items()
        }


@pytest.mark.parametrize(
    ("key", "others", "expected"),
    [("observation", (), [7, 0]), ("obs", (), [7, 0]), ("observation", ("z",), [7, 0, 0, 1])],
)
def test_the_mask_is_taken_and_the_other_entries_are_the_observation(key, others, expected):
    env = Masked(key, others)
    team = adapted(env)
    first = team.reset(7)
    assert team.spec.masks_actions
    assert first.obs.tolist() == [expected, expected]
    assert first.avail_actions.tolist() == [[0, 1], [0, 1]]
    assert first.state.tolist() == expected * 2
    obs, avail_actions = NamedAgents(team.spec).seen(env.reset(7)[0], None)
    assert (obs.tolist(), avail_actions.tolist()) == (first.obs.tolist(), [[False, True]] * 2)


def test_an_image_beside_the_mask_stays_an_image():
    env = Masked("pixels", ())
    image = spaces.Dict({"pixels": spaces.Box(0, 255, (8, 9, 3), np.uint8), "action_mask": MASK})
    env.observation_spaces = dict.fromkeys(env.possible_agents, image)
    assert adapted(env).spec.obs_shape == (3, 8, 9)
