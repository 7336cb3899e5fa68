"""What the checker says about masks: where they stand, and what form they have."""

import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.env.actions import as_mask, numbered
from rltrain.env.gymnasium import adapted
from rltrain.errors import EnvError
from tests.env.scripted import Scripted
from tests.env.team.scripted import Scripted as Team
from tests.env.test_check import Good

ONLY_ONE = np.array([0, 1], np.int8)


class Masked(Good):
    """Only action 1 is allowed, and anything else raises; an episode has one to three steps."""

    mask = ONLY_ONE
    allowed = 1

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        self.length = 1 + int(self.np_random.integers(3))
        return obs, self.info()

    def step(self, action):
        if not np.array_equal(action, self.allowed):
            raise ValueError(f"illegal action {action}")
        obs, reward, *_ = super().step(1)
        return obs, reward, self.t == self.length, False, self.info()

    def info(self):
        return {"action_mask": self.mask}


class MaskedPair(Masked):
    action_space = spaces.MultiDiscrete([2, 2], start=[3, 0])
    mask, allowed = (np.array([1, 0], np.int8), ONLY_ONE), [3, 1]


class MaskedFlat(MaskedPair):
    mask = np.array([0, 1, 0, 0])


class MaskedTable(MaskedPair):
    mask = np.outer([1, 0], [0, 1])


class MaskedTeam(Team):
    """Actions must be allowed; ``leaves`` as in its parent."""

    def __init__(self, mask=ONLY_ONE, actions=(2, 2), allowed=1, **rest):
        super().__init__(mask=mask, actions=actions, **rest)
        self.allowed = allowed

    def step(self, actions):
        if not all(np.array_equal(action, self.allowed) for action in actions.values()):
            raise ValueError(f"illegal actions {actions}")
        return super().step(dict.fromkeys(actions, 1))


PAIR = spaces.MultiDiscrete([2, 2], start=[1, 0])
RIGHT = {
    "single": Masked,
    "components": MaskedPair,
    "flat": MaskedFlat,
    "table": MaskedTable,
    "team": MaskedTeam,
    "short team": lambda: MaskedTeam(length=1),
    "components of a team": lambda: MaskedTeam((ONLY_ONE, ONLY_ONE), (PAIR, PAIR), [2, 1]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", RIGHT)
def test_forbidden_actions_are_never_played(kind):
    assert str(rltrain.check_env(RIGHT[kind])) == "No problem was found."


class Informed(Good):
    """Has a mask at some time steps only."""

    masked: frozenset[int]

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.info()

    def step(self, action):
        return *super().step(action)[:4], self.info()

    def info(self):
        return {"action_mask": ONLY_ONE} if self.t in self.masked else {}


class InformedTeam(Team):
    """The same of a team."""

    def infos(self, agents):
        return {a: {"action_mask": np.ones(2)} if self.t in self.masked else {} for a in agents}


IN_RESET = r"reset\(\) gives masks .* and step\(\) gives none"
IN_STEP = r"step\(\) gives masks .* and reset\(\) gives none"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "masked", "said"),
    [
        *((kind, {0}, IN_RESET) for kind in (Informed, InformedTeam)),
        *((kind, set(range(1, 6)), IN_STEP) for kind in (Informed, InformedTeam)),
        (Informed, set(range(5)), None),  # not at the end
        *((kind, set(), None) for kind in (Masked, Good, Team)),
    ],
)
def test_a_mask_of_one_method_only_is_a_hint(kind, masked, said):
    found = rltrain.check_env(type("Own", (kind,), {"masked": masked}))
    assert found.problems == []
    hints = [hint for hint in found.hints if "masks" in hint]
    assert len(hints) == (said is not None)
    for hint in hints:
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(hint)


COMPONENTS = [
    ([2, 2], ([1, 0], [1, 1]), [1, 1, 0, 0]),
    ([2, 2], ([0, 1], np.array([True, False])), [0, 0, 1, 0]),
    ([2, 3], (np.array([1, 0], np.int8), np.array([1, 0, 1], np.int8)), [1, 0, 1, 0, 0, 0]),
    ([2, 2], [1, 1, 0, 0], [1, 1, 0, 0]),
    ([2, 2], (1, 1, 0, 0), [1, 1, 0, 0]),
    ([2, 2], np.array([[1, 1], [0, 0]]), [1, 1, 0, 0]),
    ([4], ([1, 0, 0, 1],), [1, 0, 0, 1]),
    ([2, 2], [[1, 0], [1, 1]], None),
    ([2, 2], [np.array([1, 0]), np.array([1, 1])], None),
    ([2, 3], ([1, 0, 1], [1, 0]), None),
    ([2, 2], ([1, 0], None), None),
    ([2, 2], ([1, 0],), None),
    ([2, 2], ([2, 0.5], [1, 1]), None),
    ([2, 3], [1, 0, 1, 1, 1], None),
    ([2, 3], np.ones((3, 2)), None),
]


@pytest.mark.parametrize(("sizes", "given", "expected"), COMPONENTS)
def test_masks_of_components_become_those_of_the_combinations(sizes, given, expected):
    space = spaces.MultiDiscrete(sizes)
    mask = as_mask(given, numbered(space, "test"))
    assert (None if mask is None else mask.tolist()) == expected
    single = adapted(Scripted(actions=space, masks=[given]))
    team = adapted(Team(actions=(space, space), mask=given))
    for env, n in ((single, 1), (team, 2)):
        if expected is None:
            said = r"(?s)(gave|returned) .*action_mask .* or a tuple of one mask"
            with pytest.raises(EnvError, match=said):
                env.reset(0)
        else:
            assert env.reset(0).avail_actions.tolist() == [expected] * n
