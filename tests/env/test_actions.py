"""MultiDiscrete actions of one agent: every combination an action, or every component an agent."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.env.actions import numbered
from rltrain.env.env_options import EnvOptions
from rltrain.env.gymnasium import adapted
from rltrain.errors import UsageError
from tests.env.scripted import Plain, Scripted
from tests.env.team.scripted import Scripted as Team
from tests.helpers import without


class Dials(Plain):
    """Three dials are to be set as they are shown."""

    observation_space = spaces.Box(0, 3, (3,))
    action_space = spaces.MultiDiscrete([2, 3, 2], start=[0, 1, 0])
    length = 4

    def reset(self, *, seed=None, options=None):
        self.given = []
        return super().reset(seed=seed)

    def seen(self):
        self.shown = self.np_random.integers(self.action_space.nvec) + self.action_space.start
        return self.shown.astype(np.float32)

    def step(self, action):
        self.given.append(action.tolist())
        self.reward = float((action == self.shown).sum())
        return super().step(action)


class Many(Dials):
    action_space, observation_space = spaces.MultiDiscrete([10] * 5), spaces.Box(0, 9, (5,))


def test_every_combination_is_an_action():
    env = adapted(Dials())
    assert env.spec.n_actions == 12
    env.reset(0)
    for action in (0, 1, 2, 11):
        env.step(np.array([action]))
    assert env.env.given == [[0, 1, 0], [0, 1, 1], [0, 2, 0], [1, 3, 1]]


def test_every_component_is_an_agent():
    assert adapted(Many(), FACTORED).spec.n_agents == 5
    env = adapted(Dials(), FACTORED)
    assert (env.spec.n_agents, env.spec.n_actions, env.spec.state_dim) == (3, 3, 3)
    first = env.reset(0)
    assert first.avail_actions.tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 0]]
    assert (first.obs == first.state).all()
    _, reward, *_ = env.step(np.array([1, 2, 0]))
    assert (env.env.env.given, reward.shape) == ([[1, 3, 0]], (1,))


def acting(space):
    env = Scripted(spaces.Tuple((spaces.Box(-1, 1, (2,)),) * 2))
    env.action_space = space
    return env


EMPTY = spaces.MultiDiscrete([])
NONE = r"has actions MultiDiscrete.*, of no component: expected"
SINGLE = r"env\.factored=true: CartPoleEnv .* no components"
FACTORED = EnvOptions(factored=True)
REFUSED = {
    "many": (Many(), EnvOptions(), r"100,000 combinations, .*Type env\.factored=true"),
    "single": (gymnasium.make("CartPole-v1"), FACTORED, SINGLE),
    "alone": (acting(EMPTY), EnvOptions(), NONE),
    "factored": (acting(EMPTY), FACTORED, NONE),
    "two axes": (acting(spaces.MultiDiscrete(np.zeros((0, 2), int))), EnvOptions(), NONE),
    "of a Tuple": (acting(spaces.Tuple((EMPTY, EMPTY))), EnvOptions(), NONE),
    "of a team": (Team(actions=(EMPTY, 2)), EnvOptions(), NONE),
}
TWO_AXES = {
    r"MultiDiscrete\(\[2, 3, 2, 2\]\)": spaces.MultiDiscrete([[2, 3], [2, 2]]),
    r"MultiDiscrete\(\[2, 3\], start=\[0, 4\]\)": spaces.MultiDiscrete([[2, 3]], start=[[0, 4]]),
    r"MultiBinary\(6\)": spaces.MultiBinary((2, 3)),
}
for flat, space in TWO_AXES.items():
    said = rf"with 2 axes: expected one\. Flatten .*reshape\(\(\d, \d\)\), spaces\.{flat}"
    REFUSED[f"{flat} alone"] = (Scripted(actions=space), EnvOptions(), said)
    REFUSED[f"{flat} factored"] = (Scripted(actions=space), FACTORED, said)
    REFUSED[f"{flat} of a team"] = (Team(actions=(space, 2)), EnvOptions(), said)


@pytest.mark.parametrize("name", REFUSED)
def test_actions_that_cannot_be_numbered_are_refused(name):
    """Defect: those without a component were learned, and the checkpoint was called damaged."""
    env, options, said = REFUSED[name]
    with pytest.raises(ValueError, match=said):
        adapted(env, options)


def test_binary_actions_are_components_of_two():
    actions = numbered(spaces.MultiBinary(3), "it")
    assert (actions.n, actions.own(5).tolist()) == (8, [1, 0, 1])


def test_a_policy_answers_with_components(single, tmp_path):
    overrides = [*without(single, "env="), "algo=dqn", "algo.learning_starts=10"]
    trainer = rltrain.make_trainer(overrides, tmp_path, env=Dials)
    trainer.run(20)
    trainer.save("weights")
    policy, seen = rltrain.load_policy(tmp_path), np.array([1, 2, 0], np.float32)
    policy.reset()
    action = policy.act(seen)
    assert Dials.action_space.contains(action)
    assert action.tolist() == trainer.compute_single_action(seen).tolist()


@pytest.mark.parametrize("algo", ["iql", "vdn", "qmix"])
def test_factored_agents_train(small, tmp_path, algo):
    overrides = [*without(small, "env="), "env=gymnasium", "env.factored=true", f"algo={algo}"]
    trainer = rltrain.make_trainer(overrides, tmp_path, env=Dials)
    trainer.run(60)
    assert trainer.rollout.env.spec.n_agents == 3


def test_clipped_rewards_of_a_team_are_refused(small, tmp_path):
    overrides = [*without(small, "env="), "env=gymnasium", "env.factored=true", "env.reward_clip=1"]
    with pytest.raises(UsageError, match=r"env\.reward_clip=1: .*Type env\.reward_clip=null"):
        rltrain.make_trainer([*overrides, "algo=vdn"], tmp_path / "run", env=Dials)


def test_the_wrapper_that_flattens_works():
    env = Scripted(actions=spaces.MultiDiscrete([[2, 3], [2, 2]]))
    wrapped = gymnasium.wrappers.TransformAction(
        env, lambda action: action.reshape((2, 2)), spaces.MultiDiscrete([2, 3, 2, 2])
    )
    adapter = adapted(wrapped)
    adapter.reset(0)
    adapter.step(np.array([23]))
    assert env.taken[0].tolist() == [[1, 2], [1, 1]]
