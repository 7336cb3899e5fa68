"""Loaded policies of teams take what their environments give, and return what these take."""

import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.algo.policy import own_actions
from rltrain.env.env_options import EnvOptions
from rltrain.env.gymnasium import adapted
from rltrain.types import EnvSpec
from tests.env.team.scripted import Scripted

Box, Discrete = spaces.Box, spaces.Discrete
MultiDiscrete, Tuple = spaces.MultiDiscrete, spaces.Tuple
WORDS = ["algo=vdn", "test.n_envs=1", "hardware.n_envs=1", "hardware.threads=1"]


class Shown(gymnasium.Env):
    """Shows samples of its space, and refuses actions that are not of theirs."""

    def __init__(self, observations, actions, mask=None):
        self.observation_space, self.action_space, self.mask = observations, actions, mask

    def reset(self, *, seed=None, options=None):
        self.observation_space.seed(seed)
        return self.observation_space.sample(), self.info()

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, False, True, self.info()

    def info(self):
        return {} if self.mask is None else {"action_mask": self.mask}


def loaded(make, folder, *overrides):
    """The policy of the initialization."""
    trainer = rltrain.make_trainer([*WORDS, *overrides], folder, env=make)
    policy = rltrain.load_policy(trainer.save("weights"))
    trainer.close()
    return policy


STARTS = Discrete(2, start=5), Discrete(3, start=-1)
TUPLES = {
    "alike": (Tuple([Box(0, 1, (3,))] * 2), Tuple(STARTS)),
    "sizes": (Tuple([Box(0, 1, (2,)), Box(0, 1, (3,))]), Tuple(STARTS)),
    "discrete": (Tuple([Discrete(3, start=1)] * 2), Tuple(STARTS)),
    "dicts": (Tuple([spaces.Dict(a=Box(0, 1, (2,))), Box(0, 1, (2,))]), Tuple(STARTS)),
    "components": (Tuple([Discrete(2)] * 2), Tuple([MultiDiscrete([2, 2], start=[1, 0])] * 2)),
    "mixed": (Tuple([Discrete(2)] * 2), Tuple([MultiDiscrete([2, 2]), Discrete(2, start=1)])),
}


@pytest.mark.parametrize("kind", TUPLES)
def test_a_team_of_tuples_plays_its_environment(kind, tmp_path):
    env = Shown(*TUPLES[kind])
    policy = pickle.loads(pickle.dumps(loaded(lambda: Shown(*TUPLES[kind]), tmp_path)))
    for seed in range(5):
        obs, _ = env.reset(seed=seed)
        action = policy.act(obs)
        assert isinstance(action, tuple)
        env.step(action)


def test_masks_of_tuples_hold(tmp_path):
    masks = [np.array([0, 1]), np.array([1, 0, 0])]
    make = partial(Shown, *TUPLES["alike"], masks)
    policy = loaded(make, tmp_path)
    obs, info = make().reset(seed=0)
    mask = info["action_mask"]
    for given in (tuple(mask), list(mask), np.array([[0, 1, 0], [1, 0, 0]])):
        assert policy.act(obs, given) == (6, -1)
    with pytest.raises(ValueError, match=r"avail_actions: .* got none, but not all actions"):
        policy.act(obs)


FACTORED = {
    "start": (Box(0, 1, (3,)), MultiDiscrete([2, 3], start=[1, -1])),
    "same": (Box(0, 1, (2,)), MultiDiscrete([2, 2], start=[3, 5])),
    "bits": (Discrete(4), spaces.MultiBinary(3)),
    "dict": (spaces.Dict(a=Box(0, 1, (2,)), b=Discrete(2)), MultiDiscrete([2, 3])),
    "tuple": (Tuple([Discrete(2), Box(0, 1, (2,))]), MultiDiscrete([2, 3], start=[1, 1])),
}


@pytest.mark.parametrize("kind", FACTORED)
def test_a_team_of_components_plays_its_environment(kind, tmp_path):
    observations, actions = FACTORED[kind]
    env = Shown(observations, actions)
    policy = loaded(lambda: Shown(observations, actions), tmp_path, "env.factored=true")
    for seed in range(5):
        policy.reset()
        obs, _ = env.reset(seed=seed)
        joint = policy.act(obs)
        env.step(joint)
        policy.reset()
        by_name = policy.act(dict.fromkeys(policy.named.names, obs))
        assert list(by_name.values()) == joint.tolist()


def test_masks_by_component_are_those_of_the_agents(tmp_path):
    masks = np.array([0, 1], np.int8), np.array([1, 0, 0], np.int8)
    make = partial(Shown, *FACTORED["start"], masks)
    first = adapted(make(), EnvOptions(factored=True)).reset(0)
    assert first.avail_actions.tolist() == [[0, 1, 0], [1, 0, 0]]
    policy = loaded(make, tmp_path, "env.factored=true")
    obs, info = make().reset(seed=0)
    assert policy.act(obs, info["action_mask"]).tolist() == [2, -1]


def spec_of(*actions):
    return adapted(Scripted(sizes=[2] * len(actions), actions=actions)).spec


PAIR = MultiDiscrete([2, 3], start=[1, -1])
OWN = [
    (EnvSpec(n_agents=1, n_actions=3, obs_shape=(2,), first_action=4), [2], [6]),
    (EnvSpec(n_agents=2, n_actions=3, obs_shape=(2,)), [2, 1], [2, 1]),
    (spec_of(2, 2), [1, 0], [1, 0]),
    (spec_of(Discrete(3, start=5), Discrete(2)), [2, 1], [7, 1]),
    (spec_of(PAIR, PAIR), [5, 0], [[2, 1], [1, -1]]),
    (spec_of(spaces.MultiBinary(2), MultiDiscrete([3, 2])), [1, 4], [[0, 1], [2, 0]]),
]


@pytest.mark.parametrize(("spec", "action", "own"), OWN)
def test_actions_are_those_of_the_environment(spec, action, own):
    assert own_actions(np.array(action), spec).tolist() == own


def test_actions_of_different_forms_are_an_array_of_objects():
    one, pair = own_actions(np.array([2, 5]), spec_of(Discrete(3, start=5), PAIR))
    assert (one, pair.tolist()) == (7, [2, 1])


def test_arrays_and_names_give_the_same_actions_of_pettingzoo(tmp_path):
    make = partial(Scripted, actions=(Discrete(3, start=5), Discrete(3, start=-4)))
    policy = loaded(make, tmp_path, "env=pettingzoo")
    obs = make().reset(seed=3)[0]
    by_name = policy.act(obs)
    policy.reset()
    assert by_name["a"] in (5, 6, 7)
    assert by_name["b"] in (-4, -3, -2)
    assert policy.act(np.stack(list(obs.values()))).tolist() == list(by_name.values())


MASK = np.array([0, 1])
BOTH_MASKED = partial(Scripted, mask=MASK)


class OneMasked(Scripted):
    """Only b has masks, in its info."""

    def infos(self, agents):
        return {a: {"action_mask": MASK} if a == "b" else {} for a in agents}


@pytest.mark.parametrize(
    ("make", "masks", "lacks"),
    [
        (BOTH_MASKED, None, "a"),
        (BOTH_MASKED, {"a": MASK}, "b"),
        (BOTH_MASKED, {"a": MASK, "b": None}, "b"),
        (partial(BOTH_MASKED, actions=(2, 2), sizes=(2, 3)), {"b": MASK}, "a"),
        (OneMasked, None, "a"),
        (BOTH_MASKED, np.ones((2, 2)), ""),
    ],
    ids=["none", "partial", "None", "sizes", "one", "array"],
)
def test_a_mask_that_is_missing_by_name_is_asked_for(make, masks, lacks, tmp_path):
    policy = loaded(make, tmp_path, "env=pettingzoo")
    obs = make().reset(seed=0)[0]
    said = f"avail_actions: expected 2 entries for the agent {lacks}, got none, but not all"
    with pytest.raises(ValueError, match=said if lacks else "avail_actions: expected masks by na"):
        policy.act(obs, masks)
    assert policy.act(obs, {"a": MASK, "b": MASK}) == {"a": 1, "b": 1}
    assert policy.act({"b": obs["b"]}, {"b": MASK}) == {"b": 1}


def test_agents_with_numbers_of_actions_of_their_own_need_no_masks(tmp_path):
    make = partial(Scripted, actions=(2, 3))
    policy = loaded(make, tmp_path, "env=pettingzoo")
    obs = make().reset(seed=0)[0]
    assert set(policy.act(obs)) == {"a", "b"}
    rows = np.stack(list(obs.values()))
    assert policy.act(rows, [[1, 0, 1], [0, 0, 1]]).tolist() == [0, 2]
    with pytest.raises(ValueError, match="expected an available action for each agent"):
        policy.act(rows, [[0, 0, 1], [1, 1, 1]])


class Numbered(Scripted):
    """Agents are named by numbers."""

    names: tuple = (7, 3)

    def __init__(self):
        super().__init__(actions=(Discrete(2, start=1), 2))
        spaces_ = zip(self.names, self.observation_spaces.values(), strict=True)
        self.observation_spaces = dict(spaces_)
        self.action_spaces = dict(zip(self.names, self.action_spaces.values(), strict=True))
        self.sizes = dict(zip(self.names, self.sizes.values(), strict=True))
        self.possible_agents = list(self.names)

    def step(self, actions):
        letters = {a: actions[a] for a in self.agents}
        assert all(self.action_spaces[a].contains(x) for a, x in letters.items())
        self.t += 1
        acting, cut = self.agents, self.t == self.length
        self.agents = [] if cut else acting
        flags = dict.fromkeys(acting, False), dict.fromkeys(acting, cut)
        return self.seen(acting), dict.fromkeys(acting, 1.0), *flags, self.infos(acting)


class OddlyNamed(Numbered):
    names = ((0, 1), (1, 0))


def test_agents_named_by_numbers_are_asked_by_these(tmp_path):
    """And paired by these."""
    policy = loaded(Numbered, tmp_path, "env=pettingzoo")
    found = policy.act(Numbered().reset(seed=0)[0])
    assert list(found) == [7, 3]
    assert found[7] in (1, 2)
    assert found[3] in (0, 1)
    team = adapted(Numbered())
    for names in ([3, 7], ["3", "7"]):
        team.order_agents(names)
        assert [name for name, *_ in team.spec.agents] == [3, 7]
    assert team.reset(4).obs.shape == (2, 2)


def test_agents_named_otherwise_are_a_hint_and_asked_with_arrays(tmp_path):
    assert "by text or whole numbers" in str(rltrain.check_env(OddlyNamed))
    policy = loaded(OddlyNamed, tmp_path, "env=pettingzoo")
    assert policy.act(np.zeros((2, 2))).shape == (2,)
    with pytest.raises(ValueError, match=r"no agents named by text or whole numbers.*\(2, 2\)"):
        policy.act(OddlyNamed().reset(seed=0)[0])


def of_dtype(dtype):
    """A space of components of this type."""
    return MultiDiscrete([2, 3], dtype=dtype, start=[1, 0])


SEEN = Box(0, 1, (2,))
FORMS = {
    **dict.fromkeys(("one agent", "factored"), lambda dtype: Shown(SEEN, of_dtype(dtype))),
    "numbers": lambda dtype: Shown(SEEN, Discrete(3, start=2, dtype=dtype)),
    "tuple": lambda dtype: Shown(Tuple([SEEN] * 2), Tuple([of_dtype(dtype)] * 2)),
    "mixed": lambda dtype: Shown(
        Tuple([SEEN] * 3), Tuple([of_dtype(dtype), of_dtype(np.int64), Discrete(2, dtype=dtype)])
    ),
    "by name": lambda dtype: Scripted(actions=(of_dtype(dtype), Discrete(3, dtype=dtype))),
}
"""Environments whose actions are of a type, by their form."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint32, np.int64])
@pytest.mark.parametrize("form", FORMS)
def test_actions_of_every_form_and_type_are_in_their_space(form, dtype, tmp_path):
    """Defect: those of components were 64-bit numbers, whatever their space."""
    env = FORMS[form](dtype)
    overrides = ["env.factored=true"] if form == "factored" else []
    policy = loaded(lambda: FORMS[form](dtype), tmp_path, *overrides)
    obs, _ = env.reset(seed=0)
    action = policy.act(obs)
    if form == "by name":
        assert all(env.action_space(name).contains(each) for name, each in action.items())
        return
    assert env.action_space.contains(action)
    if form == "tuple":
        rows = np.zeros((2, *policy.spec.obs_shape), np.float32)
        assert all(env.action_space[0].contains(row) for row in policy.act(rows))
