"""Environments of PettingZoo with two teams: one learns, and opponents play the other."""

import numpy as np
import pytest

import rltrain
from rltrain.common.files import get_json
from rltrain.env import magent_env, mpe_env, pettingzoo_env
from rltrain.errors import UsageError
from rltrain.types import Clock
from tests.env.team.duel import LENGTH
from tests.helpers import require_same_steps
from tests.integration.promises.checks import evaluate, resume, test_workers, workers
from tests.integration.promises.checks import whole_run as whole_run_of
from tests.integration.promises.states import COMMON, OWN, State, typed_words
from tests.marks import slow_except

DUEL = (
    *(*COMMON, "algo=vdn", *OWN, "env=pettingzoo", "env.id=tests.env.team.duel:Duel"),
    *("trust=[tests]", "total_env_steps=200", "test.interval=100"),
)
RED, BLUE = "env.team=red", "env.team=blue"
TAG = (*COMMON, "algo=vdn", *OWN, "env=mpe", "env.game=tag", "env.max_episode_steps=10")


def made(folder, *words):
    """A trainer of a small run; of keys that are given twice the later ones count."""
    return rltrain.make_trainer([*typed_words(*words).values()], run_dir=folder)


def trained(folder, *words):
    """The folder of a small run that is over."""
    trainer = made(folder, *words)
    trainer.train()
    trainer.close()
    return folder


@pytest.fixture(scope="session")
def blue(tmp_path_factory):
    """A run of the blue team."""
    folder = tmp_path_factory.mktemp("teams") / "blue"
    return trained(folder, *DUEL, BLUE, "env.opponent=random")


@pytest.mark.parametrize("promise", slow_except((resume, workers, evaluate), (test_workers,)))
def test_a_team_plays_the_same_against_another_one_again(promise, blue, tmp_path):
    words = (*DUEL, RED, f"env.opponents={{random:1,{blue}:2}}", "env.opponent_epsilon=0.2")
    state = State((*words, f"test.opponent={blue}"))
    whole = whole_run_of(state, tmp_path)
    promise(state, whole, tmp_path / "again")
    whole.trainer.close()


@pytest.mark.slow
def test_a_team_plays_itself_and_its_newest_snapshot_in_tests(tmp_path):
    words = (*DUEL, RED, "env.opponent=self", "self_play.interval=60", "self_play.pool_size=2")
    state = State((*words, "test.interval=60"))
    whole = whole_run_of(state, tmp_path)
    assert whole.trainer.latest["test/win_rate/self"] == whole.trainer.latest["test/win_rate"]
    battles = get_json(whole.folder / "self_play.json")
    each = [sum(counts) for of_now in battles.values() for counts in of_now.values()]
    assert sum(each) == whole.trainer.clock.episodes
    assert [*map(int, battles)] == sorted(map(int, battles))
    assert len(battles) > 2
    played = rltrain.evaluate(whole.folder, episodes=2, overrides=["trust=[tests]"])
    record = get_json(whole.folder / "evaluation.json")
    newest = max(int(path.name) for path in (whole.folder / "pool").iterdir())
    assert record["opponent"] == f"pool-{newest}"
    assert "test/win_rate" in played.metrics
    resume(state, whole, tmp_path / "again")
    whole.trainer.close()


def test_the_other_team_is_played_by_the_policy_that_was_trained_as_it(blue, tmp_path):
    words = (*DUEL, RED, f"env.opponent={blue}", "hardware.n_envs=1")
    trainer = made(tmp_path / "run", *words)
    policy, side = trainer.rollout.opponents.policies["blue"], trainer.rollout.opponents.side
    act, chosen = policy.act, []
    policy.act = lambda *seen: chosen.append(act(*seen)) or chosen[-1]
    steps = trainer.rollout.collect(LENGTH, Clock())
    given = trainer.rollout.env.envs[0].env.unwrapped.given
    assert [name for name, *_ in side.spec.agents] == ["blue_0", "blue_1"]
    np.testing.assert_array_equal(steps.action[:, 0], [[g["red_0"], g["red_1"]] for g in given])
    np.testing.assert_array_equal(np.concatenate(chosen), [[*g.values()][2:] for g in given])
    trainer.close()


def test_tests_are_played_against_the_opponent_of_training_where_none_is_built_in(blue, tmp_path):
    trainer = made(tmp_path / "run", *DUEL, RED, f"env.opponents={{random:1,{blue}:2}}")
    trainer.train()
    trainer.close()
    assert "test/win_rate/blue" in trainer.latest
    config = get_json(tmp_path / "run" / "config.json")
    assert config["test"]["opponent"] == str(blue)


def test_a_checkpoint_of_another_game_or_size_is_refused(blue, tmp_path):
    larger = (*DUEL, RED, f"env.opponent={blue}", "+env.kwargs.blue=3")
    with pytest.raises(UsageError, match="trained as that team"):
        made(tmp_path / "larger", *larger)
    tag = (*TAG, f"env.opponent={blue}", "trust=[tests]")
    with pytest.raises(UsageError, match=r"was trained on pettingzoo .*, and this run is on mpe"):
        made(tmp_path / "tag", *tag)


@pytest.mark.slow
def test_predators_learn_against_a_prey_that_was_trained(tmp_path):
    prey = trained(tmp_path / "prey", *TAG, "env.team=agent", "env.opponent=random")
    trainer = made(tmp_path / "run", *TAG, f"env.opponents={{builtin:1,{prey}:1,random:1}}")
    assert next(name for name, *_ in trainer.rollout.env.spec.agents) == "adversary_0"
    trainer.train()
    trainer.close()
    assert "test/return_mean" in trainer.latest


COMMONS = {"n_envs": 1, "kwargs": {}, "reward": "sum", "time_limit": "bootstrap", "record": False}


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (mpe_env, {"game": "tag", "max_episode_steps": 9}),
        (magent_env, {"game": "adversarial_pursuit", "max_episode_steps": 9}),
        (mpe_env, {"game": "adversary", "max_episode_steps": 9}),
    ],
)
def test_a_side_that_is_not_commanded_plays_as_the_builtin_one(make, options):
    one, other = (make(**COMMONS, **options, two_sided=two) for two in (False, True))
    rng = np.random.default_rng(0)
    for env in (one, other):
        env.reset(lambda e, k: 3)
    actions = rng.integers(one.spec.n_actions, size=(20, 1, one.spec.n_agents))
    require_same_steps(one, other, actions)


def test_what_the_other_team_sees_is_its_own_observation():
    options = {**COMMONS, "id": "tests.env.team.duel:Duel", "training": True, "team": "red"}
    env = pettingzoo_env(**options, two_sided=True)
    env.reset(lambda e, k: 3)
    env.other_side.commanded[:] = True
    for _ in range(LENGTH):
        game = env.envs[0].env.unwrapped
        numbers = [game.number[f"blue_{i}"] for i in range(2)]
        assert env.other_side.obs[0, :, :3].argmax(-1).tolist() == numbers
        env.other_side.action[0] = numbers
        env.step(np.zeros((1, 2), np.int64))
        assert [game.given[-1][f"blue_{i}"] for i in range(2)] == numbers
    assert game.score["blue"] == 2 * LENGTH
    assert not env.infos[0]["win"]


def test_agents_may_be_called_by_numbers():
    """Defect: no agent was recognized as one of the other team."""
    games = {"Duel": "red", "NumberedDuel": ["0", "1"]}
    given = {**COMMONS, "training": True, "two_sided": True}
    one, other = (
        pettingzoo_env(id=f"tests.env.team.duel:{game}", team=team, **given)
        for game, team in games.items()
    )
    for env in (one, other):
        env.reset(lambda e, k: 3)
    require_same_steps(one, other, np.random.default_rng(0).integers(3, size=(20, 1, 2)))
