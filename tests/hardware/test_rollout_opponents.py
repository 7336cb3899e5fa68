"""Opponents of a rollout: one for each episode, each acting where it plays. The pool of snapshots
of self-play: when they are taken, and which one plays.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rltrain.hardware.rollout_opponents import NewestSnapshot, Opponents, SelfPlay
from rltrain.types import Clock, EnvSpec

N_ENVS = 3


class Side:
    """The other side of three environments, with two agents and four actions."""

    spec = EnvSpec(n_agents=2, n_actions=4, obs_shape=(1,))
    same_team = True
    n_envs = N_ENVS

    def __init__(self) -> None:
        self.obs = np.zeros((N_ENVS, 2, 1), np.float32)
        self.avail_actions = np.ones((N_ENVS, 2, 4), np.uint8)
        self.state = np.zeros((N_ENVS, 0), np.float32)
        self.action = np.zeros((N_ENVS, 2), np.int64)
        self.commanded = np.zeros(N_ENVS, np.bool_)

    def scripted(self, name: str) -> Any:
        raise ValueError(name)


@dataclass
class Always:
    """A policy that chooses one action, and counts."""

    action: int
    acted: int = 0
    forgotten: list[list[int]] = field(default_factory=list)

    def act(self, obs, avail_actions, last, clock) -> np.ndarray:
        self.acted += 1
        return np.full(obs.shape[:2], self.action)

    def forget(self, envs: np.ndarray) -> None:
        self.forgotten.append(np.flatnonzero(envs).tolist())

    def state_dict(self) -> dict[str, Any]:
        return {"acted": self.acted}

    def load_state_dict(self, state: Any) -> None:
        self.acted = state["acted"]

    def carry_on(self, state: Any) -> None:
        self.acted = state["acted"]


def drawn_last(action: np.ndarray, available: np.ndarray, epsilon: float, rng: Any) -> None:
    """Exploration that always takes the last action."""
    action[:] = 3


def opponents(plays: list[list[str]], **epsilon: float) -> tuple[Opponents, dict[str, Always]]:
    """Opponents a, b and the built-in one; ``plays[e][k]`` plays episode k of environment e."""
    policies = {"a": Always(1), "b": Always(2)}
    named: Any = lambda e, k: plays[e][k]  # noqa: E731 - a name in place of a random stream
    made = Opponents(
        side=Side(),
        policies={"builtin": None, **policies},
        draw=lambda rng: str(rng),
        streams=named,
        explore=drawn_last,
        epsilon={"builtin": 0.0, "a": 0.0, "b": 0.0, **epsilon},
    )
    made.reset()
    return made, policies


def test_each_opponent_acts_once_a_step_where_it_plays() -> None:
    made, policies = opponents([["a"], ["builtin"], ["b"]])
    assert made.side.commanded.tolist() == [True, False, True]
    made.act(np.zeros(N_ENVS, np.bool_), Clock())
    assert made.side.action.tolist() == [[1, 1], [0, 0], [2, 2]]
    assert [policy.acted for policy in policies.values()] == [1, 1]
    made, policies = opponents([["a"], ["a"], ["builtin"]])
    made.act(np.zeros(N_ENVS, np.bool_), Clock())
    assert [policy.acted for policy in policies.values()] == [1, 0]


def test_the_next_opponent_begins_where_an_episode_ended() -> None:
    made, policies = opponents([["a", "b"], ["a", "builtin"], ["b", "a"]])
    made.act(np.array([True, False, False]), Clock())
    assert (made.names, policies["b"].forgotten[-1]) == (["b", "a", "b"], [0])
    made.act(np.array([False, True, False]), Clock())
    assert made.names == ["b", "builtin", "b"]
    assert made.side.commanded.tolist() == [True, False, True]


def test_opponents_explore_with_an_epsilon_of_their_own() -> None:
    made, _ = opponents([["a"], ["b"], ["builtin"]], b=0.5)
    made.act(np.zeros(N_ENVS, np.bool_), Clock())
    assert made.side.action.tolist() == [[1, 1], [3, 3], [0, 0]]


def test_an_opponent_remembers_the_actions_that_it_played() -> None:
    made, policies = opponents([["a"], ["a", "a"], ["b"]], a=0.5)
    policies["a"].last_action = np.full((N_ENVS, 2), -1)
    made.act(np.array([False, True, False]), Clock())
    assert policies["a"].last_action.tolist() == [[3, 3], [-1, -1], [-1, -1]]


def test_environments_that_crashed_keep_their_opponent() -> None:
    made, policies = opponents([["a", "b"], ["a", "b"], ["builtin", "b"]])
    made.forget(np.array([True, False, True]))
    assert (made.names, policies["a"].forgotten[-1]) == (["a", "a", "builtin"], [0, 2])


class Remembering:
    """A policy with one weight and a memory."""

    def __init__(self) -> None:
        self.agents = nn.Linear(1, 1, bias=False)
        self.memory = 0

    def act(self, obs: Any, avail_actions: Any, last: Any, clock: Clock) -> Any:
        raise AssertionError

    def forget(self, envs: Any) -> None:
        self.memory = 0

    def state_dict(self) -> dict[str, Any]:
        return {"memory": self.memory}

    def load_state_dict(self, state: Any) -> None:
        self.memory = state["memory"]

    def carry_on(self, state: Any) -> None:
        raise AssertionError


def self_play(sampling: str = "uniform", **words: Any) -> SelfPlay:
    parts: dict[str, Any] = {"pool_size": 2, "interval": 100, "sampling": sampling, **words}
    return SelfPlay(agents=nn.Linear(1, 1, bias=False), make=Remembering, **parts)


def weight(policy: Any) -> float:
    return float(policy.agents.weight)


def trained(pool: SelfPlay, *steps: int) -> SelfPlay:
    """A pool after updates at these env steps, at each of which the weight is the env step."""
    agents: Any = pool.agents
    for step in steps:
        with torch.no_grad():
            agents.weight.fill_(step)
        pool.update(Clock(env_steps=step), [])
    return pool


def test_a_snapshot_is_taken_at_the_first_update_at_or_after_its_multiple() -> None:
    pool = trained(self_play(pool_size=9), 0, 60, 130, 190, 200, 420)
    assert pool.pool == [0, 130, 200, 420]


def test_snapshots_keep_the_weights_that_agents_had() -> None:
    pool = trained(self_play(), 0, 100)
    assert [weight(pool.policies[step]) for step in pool.pool] == [0, 100]


def test_the_oldest_snapshot_leaves_the_pool_and_plays_its_battles_to_the_end() -> None:
    pool = trained(self_play(), 0, 100)
    pool.update(Clock(env_steps=200), [0])
    assert pool.pool == [100, 200]
    assert set(pool.policies) == {0, 100, 200}
    pool.update(Clock(env_steps=300), [])
    assert set(pool.policies) == {200, 300}


@pytest.mark.parametrize(
    ("sampling", "shares"),
    [("uniform", {0: 0.5, 100: 0.5}), ("latest", {100: 1.0}), ("prioritized", {0: 0.8, 100: 0.2})],
)
def test_sampling_chooses_who_plays(sampling: str, shares: dict[int, float]) -> None:
    """A snapshot with 4 of 4 battles counts (5 / 6)^2, one with 1.5 of 4 (2.5 / 6)^2: 4 to 1."""
    pool = trained(self_play(sampling), 0, 100)
    for _ in range(4):
        pool.count(0, {"win": False, "draw": False})
    for won, draw in ((True, False), (True, False), (False, True), (False, False)):
        pool.count(100, {"win": won, "draw": draw})
    rng = np.random.default_rng(0)
    drawn = Counter(pool.draw(rng) for _ in range(4000))
    assert {step: n / 4000 for step, n in drawn.items()} == pytest.approx(shares, abs=0.03)


def test_a_pool_goes_on_from_its_state() -> None:
    one = trained(self_play("prioritized"), 0, 100)
    one.count(0, {"win": False, "draw": False})
    before: Any = one.policies[100]
    before.memory = 7
    two = self_play("prioritized")
    two.load_state_dict(one.state_dict())
    after: Any = two.policies[100]
    assert two.results == one.results == {0: [1.0, 1.0], 100: [0.0, 0.0]}
    assert [weight(two.policies[step]) for step in two.pool] == [0, 100]
    assert after.memory == 7
    assert trained(two, 150, 200).pool == [100, 200]
    often = self_play(interval=40)
    often.load_state_dict(one.state_dict())
    assert trained(often, 110, 121).pool == [100, 121]


def test_tests_play_the_newest_snapshot_of_a_pool_that_was_restored() -> None:
    """Defect: the weights stayed where a restored run came to the same env step again."""
    pool, rng = trained(self_play(), 0), np.random.default_rng(0)
    tests, before = NewestSnapshot(pool, Remembering), pool.state_dict()
    for trained_to in (7, 8):
        pool.load_state_dict(before)
        pool.agents.weight.data.fill_(trained_to)
        pool.update(Clock(env_steps=100), [])
        newest = tests.draw(rng)
        assert weight(tests.policies[newest]) == trained_to


def test_pools_that_no_run_has_are_refused() -> None:
    """Defect: a result of one number ended the run at the next draw."""
    whole = trained(self_play(), 100, 200).state_dict()
    nan = {"weight": torch.full((1, 1), torch.nan)}
    for key, bad in (
        ("results", {"100": [0.0], "200": [0.0, 0.0]}),
        ("results", {"100": [0.0, float("nan")], "200": [0.0, 0.0]}),
        ("results", {"100": [0.0, -1.0], "200": [0.0, 0.0]}),
        ("results", {"100": [0.0, 0.0]}),
        ("weights", {**whole["weights"], "200": nan}),
        ("pool", [100, 200, 300]),
        ("pool", [200, 100]),
    ):
        with pytest.raises(ValueError, match=r"self_play\.(pool|results|weights)"):
            self_play().load_state_dict({**whole, key: bad})
