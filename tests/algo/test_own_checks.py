"""Checks of what custom parts return."""

import numpy as np
import pytest
import torch

from rltrain.algo.exploration.interface import Exploration, ExplorationOfShare
from rltrain.algo.own_checks import require_probabilities
from rltrain.algo.policy import Policy
from rltrain.types import Clock
from tests.algo.batches import AGENTS, ALL, OPEN, SPEC, A, E, N


@pytest.mark.parametrize(
    "given",
    [None, 0.5, np.zeros(2), np.ones((2, 2)), np.ones((2, 1), int), *np.array([[[0.0]], [[1.1]]])],
)
def test_probabilities_of_an_own_exploration_are_checked_where_they_are_recorded(given):
    action = np.ones((2, 1), np.int64)
    if isinstance(given, np.ndarray) and given.shape == (1, 1):
        given = np.array([[0.5], given[0]])
    with pytest.raises(ValueError, match=r"object\.probability \(algo\.exploration\) returned"):
        require_probabilities(object(), given, action, np.ones((2, 1, 3), bool))
    fits, available = np.array([[np.nan], [0.0]]), np.array([[[True]], [[False]]])
    assert require_probabilities(object(), fits, action, available) is fits


class Given(Exploration):
    """Exploration of one's own that returns an array."""

    def __init__(self, action):
        self.action = action

    def choose(self, q, available, clock, rng):
        return self.action


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize(
    ("action", "said"),
    [
        (np.full((E, N), A), rf"returned action {A} for agent 0 of environment 0: .*\(1, 2"),
        (np.full((E, N), -1), r"returned action -1 for agent 0 of environment 0"),
        (np.eye(E, N, dtype=int), r"returned action 0 for agent 1 of environment 0: .*\(1, 2"),
        (
            np.ones(N, int),
            rf"returned int64 \[{N}\] \(NumPy\): expected .* integers .*\[{E}, {N}\]",
        ),
        (np.ones((E, N, 1), int), rf"returned int64 \[{E}, {N}, 1\] \(NumPy\): expected"),
        (np.ones((E, N)), rf"returned float64 \[{E}, {N}\] \(NumPy\): expected"),
        (torch.ones(E, N).long(), rf"returned int64 \[{E}, {N}\]: expected a NumPy array"),
        ([[1] * N] * E, "returned list: expected"),
        (None, "returned none: expected"),
    ],
    ids=lambda x: "",
)
def test_an_exploration_of_ones_own_must_choose_available_actions(action, said, share):
    """Defect: what it gave was executed and learned from, or broadcast."""
    exploration = Given(action)
    if share:
        exploration = ExplorationOfShare(exploration, first=0, total=E)
    available = ALL.copy()
    available[..., 0] = 0
    with pytest.raises(ValueError, match=rf"Given\.choose \(algo\.exploration\) {said}"):
        acted(exploration, available)


def test_an_exploration_of_ones_own_may_choose_what_it_likes_where_nothing_is_available():
    assert acted(Given(np.ones((E, N), int)), ALL * 0).tolist() == [[1] * N] * E


def acted(exploration, available):
    """The actions that a policy chooses with it."""
    agents, rng = AGENTS["mlp"](spec=SPEC), np.random.default_rng(0)
    policy = Policy(agents=agents, exploration=exploration, spec=SPEC, n_envs=E, rng=rng)
    obs = np.zeros((E, N, *SPEC.obs_shape), np.float32)
    return policy.act(obs, available, OPEN, Clock())
