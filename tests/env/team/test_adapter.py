"""PettingZoo's environments as teams: who is there, what they see, how episodes end."""

import numpy as np
import pytest
from gymnasium import spaces

from rltrain.env.env_options import EnvOptions, TeamOptions
from rltrain.env.gymnasium import adapted
from rltrain.env.team.team_names import Teams
from rltrain.env.team.two_teams import TwoTeamEnv
from rltrain.errors import EnvError
from tests.env.team.scripted import Scripted, Stateful, stepping
from tests.env.team.test_masks import Masked


def begun(env, **options):
    team = adapted(env, EnvOptions(**options))
    return team, team.reset(7)


def act(team, *action):
    return team.step(np.array(action))


def test_sizes_and_first_observation():
    team, first = begun(Scripted())
    assert (team.spec.n_agents, team.spec.n_actions, team.spec.obs_shape) == (2, 2, (2,))
    assert (team.spec.n_rewards, team.spec.masks_actions, team.spec.obs_sizes) == (1, False, None)
    assert first.obs.tolist() == [[7, 0], [7, 0]]
    assert first.avail_actions.tolist() == [[1, 1], [1, 1]]


def test_without_state_all_observations_are_the_state():
    team, first = begun(Scripted(sizes=(1, 3)))
    assert (team.spec.state_dim, first.state.tolist()) == (4, [7, 7, 0, 7])


def test_the_state_of_the_environment_where_it_has_one():
    team, first = begun(Stateful())
    assert (team.spec.state_dim, first.state.tolist()) == (1, [0])
    assert act(team, 0, 0)[0].state.tolist() == [1]


@pytest.mark.parametrize("state", [np.ma.array([1.0], mask=[True]), np.zeros(2), [np.nan]], ids=str)
def test_a_state_of_anything_but_finite_numbers_is_refused(state):
    team, _ = begun(Stateful())
    team.env.state = lambda: state
    with pytest.raises(EnvError, match=r"seed 7 returned the state .* expected 1 finite ones"):
        act(team, 0, 0)


def test_smaller_observations_are_padded_and_missing_actions_are_never_available():
    team, first = begun(Scripted(sizes=(1, 3), actions=(4, 2)))
    assert (team.spec.obs_shape, team.spec.n_actions) == ((3,), 4)
    assert (team.spec.obs_sizes, team.spec.action_sizes) == ((1, 3), (4, 2))
    assert first.obs.tolist() == [[7, 0, 0], [7, 0, 7]]
    assert first.avail_actions.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert team.spec.masks_actions


def test_an_agent_that_has_left_sees_zeros_has_action_0_and_no_reward():
    env = Scripted(leaves={"a": 1})
    team, _ = begun(env, reward="individual")
    seen, reward, terminated, truncated, _ = act(team, 1, 1)
    assert reward.tolist() == [1, 2]  # of the step that it left in, too
    assert (terminated, truncated) == (False, False)
    assert (seen.obs.tolist(), seen.avail_actions.tolist()) == ([[0, 0], [7, 1]], [[1, 0], [1, 1]])
    assert act(team, 0, 1)[1].tolist() == [0, 2]
    assert env.given[-1] == {"b": 1}


@pytest.mark.parametrize(
    ("reward", "expected"), [("sum", [3]), ("mean", [1.5]), ("individual", [1, 2])]
)
def test_rewards_of_the_team_or_of_each_agent(reward, expected):
    team, _ = begun(Scripted(), reward=reward)
    assert act(team, 1, 1)[1].tolist() == expected
    assert team.spec.n_rewards == len(expected)


def test_the_mean_is_over_the_agents_that_acted():
    team, _ = begun(Scripted(leaves={"a": 1}), reward="mean")
    act(team, 1, 1)
    assert act(team, 0, 1)[1].tolist() == [2]


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, [7, 1]), ({"cut": True}, [7, 1]), ({"cut": True, "leaves": {"a": 1}}, [0, 0])],
    ids=["over", "cut", "terminated before others were cut"],
)
def test_the_final_step_keeps_reward_kind_of_end_and_what_has_a_value(options, first):
    team, _ = begun(Scripted(length=1, **options))
    seen, reward, terminated, truncated, _ = act(team, 1, 0)
    assert (reward.tolist(), terminated, truncated) == ([1], not options, bool(options))
    assert seen.obs.tolist() == [first, [7, 1]]


def test_a_time_limit_of_ours_truncates():
    team, _ = begun(Scripted(), max_episode_steps=2)
    assert [act(team, 0, 0)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    assert team.spec.max_steps == 2


def test_an_environment_that_never_empties_its_agents_ends_all_the_same():
    class Keeps(Scripted):
        def step(self, actions):
            found = super().step(actions)
            self.agents = list(self.possible_agents)
            return found

    team, _ = begun(Keeps(length=1))
    assert act(team, 0, 0)[2:4] == (True, False)


def test_masks_in_the_info_and_in_the_observation():
    for env in (Masked("observation", ()), Scripted(mask=np.array([0, 1], np.int8))):
        team, first = begun(env)
        assert team.spec.masks_actions
        assert first.obs.tolist() == [[7, 0], [7, 0]]
        assert first.avail_actions.tolist() == [[0, 1], [0, 1]]


def test_actions_are_given_as_the_environment_has_them():
    own = (spaces.Discrete(2, start=5), spaces.MultiDiscrete([2, 3]))
    env = Scripted(actions=own)
    team, first = begun(env)
    assert team.spec.action_sizes == (2, 6)
    act(team, 1, 5)
    assert (env.given[0]["a"], env.given[0]["b"].tolist()) == (6, [1, 2])
    assert first.avail_actions[0].tolist() == [1, 1, 0, 0, 0, 0]


def test_win_and_metrics_come_from_an_agents_info():
    class Won(Scripted):
        def infos(self, agents):
            return {a: {"battle_won": True, "metrics": {"kills": 3}} for a in agents}

    team, _ = begun(Won(length=1))
    assert act(team, 0, 0)[4] == {"win": True, "metrics": {"kills": 3.0}}


def test_seeds_have_as_many_bits_as_the_environment_takes():
    env = Scripted()
    adapted(env).reset(2**40 + 3)
    assert env.seed == 3
    env.seed_bits = 64
    adapted(env).reset(2**40 + 3)
    assert env.seed == 2**40 + 3


@pytest.mark.parametrize("cut", [False, True])
def test_a_final_mask_of_zeros_leaves_all_own_actions_to_bootstrap_from(cut):
    class Finally(Scripted):
        def infos(self, agents):
            return {
                a: {"action_mask": np.full(self.action_spaces[a].n, self.t < 1)} for a in agents
            }

    team, _ = begun(Finally(actions=(3, 2), length=1, cut=cut))
    assert act(team, 0, 0)[0].avail_actions.tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize("reward", ["sum", "mean", "individual"])
@pytest.mark.parametrize("left", ["a", "b"])
def test_a_team_plays_on_when_the_other_one_has_left(reward, left):
    """Defect: the mean reward of an empty team ended the run."""
    options = TeamOptions(reward=reward)
    env = TwoTeamEnv(Scripted(leaves={left: 1}), options, Teams("ab".replace(left, "")))
    env.reset(0)
    for t in range(3):
        _, reward, terminated, _, _ = env.step(np.array([1, 1]))
        assert (reward.tolist(), terminated) == ([1 + (left == "a")], t == 2)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (spaces.Box(0, 255, (8, 9, 3), np.uint8), r"shape \({'a': \(3, 8, 8\), 'b': \(3, 8, 9\)}"),
        (spaces.Box(0, 1, (8, 8, 3), np.float32), r"dtype \({'a': 'uint8', 'b': 'float32'}"),
        (spaces.Box(0, 9, (8, 8, 3), np.uint8), r"scale \({'a': 0.0039\d*, 'b': 0.1111\d*}"),
    ],
)
def test_images_of_different_kinds_are_refused(other, message):
    """Defect: the message named the shapes, whatever differed."""

    class Images(Scripted):
        def observation_space(self, agent):
            return other if agent == "b" else spaces.Box(0, 255, (8, 8, 3), np.uint8)

    said = f"differ in their {message}\\): expected images of one shape"
    with pytest.raises(ValueError, match=said):
        adapted(Images())


class Broken(Scripted):
    def seen(self, agents):
        return {a: x * np.float32(np.nan) for a, x in super().seen(agents).items()}


class NoSpaces(Scripted):
    def action_space(self, agent):
        return {}[agent]


CONTINUOUS = Scripted(actions=(2, spaces.Box(0, 1, (2,))))
NOTHING = Scripted(mask=np.zeros(2, np.int8))


@pytest.mark.parametrize(
    ("env", "error", "said"),
    [
        (Broken(), EnvError, r"gave a the observation \[nan nan\]: expected finite num"),
        (NOTHING, EnvError, "gave a the action_mask .* at least one is 1"),
        (CONTINUOUS, ValueError, "agent b, has actions Box.*discrete"),
        (NoSpaces(), ValueError, r"no action_space\('a'\) \(KeyError: 'a'\): .*every agent"),
    ],
)
def test_a_team_that_cannot_begin_is_refused(env, error, said):
    with pytest.raises(error, match=said):
        begun(env)


NO_NUMBER = (float("nan"), float("inf"), None, np.zeros(2), "much")
NO_FLAG = ("False", None, float("nan"))
RETURNED = [  # in which place of the five, and what is said
    *(
        (1, dict.fromkeys("ab", x), "the reward .*expected (a finite|one) number")
        for x in NO_NUMBER
    ),
    *(
        (place, dict.fromkeys("ab", x), f"{name}={x!r}: expected True or False")
        for place, name in ((2, "terminated"), (3, "truncated"))
        for x in NO_FLAG
    ),
    (0, {"a": np.zeros(2)}, r"no observation for the agent b: .* agent that acted"),
    (2, True, r"terminated as bool: expected a dictionary by agent"),
    (1, {"a": 1.0}, r"rewards of \['a'\], without \['b'\]: expected .*\['a', 'b'\]"),
    (1, {}, r"rewards of \[\], without \['a', 'b'\]: expected"),
    (2, {"b": False}, r"terminated of \['b'\], without \['a'\]: expected"),
    (3, {"__all__": False}, r"truncated of \['__all__'\], without \['a', 'b'\]: expected"),
    (4, None, r"infos as NoneType: expected a dictionary by agent"),
    (4, {"a": None}, "gave a the info None: expected a dictionary"),
]


@pytest.mark.parametrize(("place", "value", "said"), RETURNED)
def test_what_a_step_returns_by_agent_is_required(place, value, said):
    replaced = stepping(lambda env, *five: (*five[:place], value, *five[place + 1 :]))
    where = "scripted at step 1 of the episode with seed 7"
    said = said if said.startswith("gave") else f"returned {said}"
    with pytest.raises(EnvError, match=f"{where} {said}"):
        act(begun(replaced())[0], 0, 0)


def test_agents_that_change_names_are_refused():
    class Renamed(Scripted):
        def step(self, actions):
            found = super().step(actions)
            self.agents = ["a", "c"]
            return found

    team, _ = begun(Renamed())
    with pytest.raises(EnvError, match=r"scripted at step 1 .* agents of \['c'\].*possible_agents"):
        act(team, 0, 0)


@pytest.mark.parametrize("returned", [None, (1, 2), "abcde"])
def test_a_step_that_returns_other_than_five_values_is_named(returned):
    """Defect: 'cannot unpack non-iterable NoneType object'."""
    team, _ = begun(env := Scripted())
    env.step = lambda actions: returned
    with pytest.raises(EnvError, match=r"seed 7: step must return \(observation, reward, .*, got"):
        act(team, 0, 0)


def test_matrices_are_part_of_the_state_and_images_are_not():
    class Shaped(Scripted):
        shape = (2, 3)

        def observation_space(self, agent):
            return spaces.Box(-1, 99, self.shape)

        def seen(self, agents):
            return {a: np.full(self.shape, self.t, np.float32) for a in agents}

    team, first = begun(Shaped())
    assert (team.spec.state_dim, first.state.tolist()) == (12, [0] * 12)
    Shaped.shape = (8, 8, 3)
    assert adapted(Shaped()).spec.state_dim == 0
