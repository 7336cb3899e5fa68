"""Opponents of a rollout: one for each episode, each acting where it plays."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rltrain.hardware.rollout_opponents import Opponents
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


def test_opponents_that_play_nowhere_do_not_act() -> None:
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
