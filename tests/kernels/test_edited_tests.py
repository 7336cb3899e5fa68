"""Tests, episodes and actions are of code that was edited in memory, as without compiled code."""

from typing import Any

import numpy as np
import pytest
import torch

import rltrain
from rltrain.algo.exploration import epsilon
from rltrain.algo.exploration.epsilon import EpsilonGreedy
from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.head import Head
from rltrain.algo.policy import Policy
from rltrain.callback import Callback, Callbacks
from tests.kernels.run_edits import COMMON, DQN, QMIX
from tests.marks import each_once

SETTINGS = "test.epsilon=0.5", "test.interval=40", "test.episodes=3"


def negated_first(found: Any) -> Any:
    return -found[0], *found[1:]


EDITED = {
    "choose": (DQN, EpsilonGreedy, "choose", lambda action: 0 * action),
    "greedy": (DQN, epsilon, "greedy", lambda action: 1 - action),
    "explore": (DQN, epsilon, "explore", None),
    "values": (DQN, Policy, "values", negated_first),
    "_tensor": (DQN, Policy, "_tensor", lambda x: x if x.dtype == torch.bool else -99 * x),
    "FeedForward.step": (DQN, FeedForward, "step", negated_first),
    "Head.forward": (DQN, Head, "forward", lambda q: -q),
    "AgentInput.forward": (DQN, AgentInput, "forward", lambda x: -99 * x),
    "GRUAgents.step": (QMIX, GRUAgents, "step", negated_first),
    "GRUAgents._values": (QMIX, GRUAgents, "_values", negated_first),
}
"""Overrides, the owner of a function, its name, and what an edit makes of its result."""
HOOKS = "on_train_start", "on_iteration", "on_test_start"
BY_HAND = "test", "play", "run", "compute_actions", "compute_single_action", "act", "evaluate"


def edit(name: str, patch: pytest.MonkeyPatch) -> None:
    _, owner, attribute, change = EDITED[name]
    plain = vars(owner)[attribute]

    def other(*given: Any, **named: Any) -> Any:
        return change(plain(*given, **named)) if change else given[0].fill(1)

    patch.setattr(owner, attribute, other)


class Edits(Callback):
    """Edits code in a hook, or by hand, and keeps the actions from then on."""

    def __init__(self, name: str, patch: Any, hook: str) -> None:
        self.name, self.patch, self.actions = name, patch, list[np.ndarray]()
        self.edited, self.at_once = False, hook != "on_iteration"
        if hook in HOOKS:
            setattr(self, hook, self.edit)

    def edit(self, trainer: Any, value: None = None) -> None:
        if not self.edited and (trainer.clock.env_steps >= 40 or self.at_once):
            self.edited = True
            edit(self.name, self.patch)

    def on_step(self, trainer: Any, value: Any) -> Any:
        self.actions += [value.action.copy()] * self.edited
        return value


def acted(name: str, way: str, kernels: str, folder: Any, patch: Any) -> list[Any]:
    """The actions after an edit in a hook, or before a call."""
    words = *EDITED[name][0], *COMMON, *SETTINGS, f"hardware.kernels={kernels}"
    trainer = rltrain.make_trainer([*words], run_dir=folder)
    edits = Edits(name, patch, way)
    trainer.callbacks = Callbacks([edits, *trainer.callbacks.callbacks])
    trainer.start()
    policy = rltrain.load_policy(trainer.run_dir)
    obs = np.random.default_rng(0).normal(size=(20, *policy.spec.obs_shape)).astype(np.float32)
    obs = obs[:, None].repeat(policy.spec.n_agents, 1)  # [20, N, O]
    given = obs[:, 0] if policy.spec.n_agents == 1 else obs
    if way in BY_HAND:
        edits.edit(trainer)
    alone = (lambda found: found[0]) if trainer.actor.remembers else lambda found: found
    calls = {
        "run": lambda: trainer.run(8),
        "compute_actions": lambda: alone(trainer.compute_actions(given)),
        "compute_single_action": lambda: [alone(trainer.compute_single_action(x)) for x in given],
        "act": lambda: [policy.act(x) for x in obs],
        "evaluate": lambda: rltrain.evaluate(folder, overrides=words[-1:]).metrics,
        "test": trainer.test,
        "play": lambda: trainer.play(3),
    }
    result = calls[way]() if way in BY_HAND else trainer.run(50)
    trainer.close()
    return [result] if way in BY_HAND[3:] else edits.actions


@pytest.mark.sampled(3)
@each_once(name=EDITED, way=[*HOOKS, *BY_HAND])
def test_what_is_edited_acts_at_once(name, way, tmp_path, monkeypatch):
    """Defect: the test in whose start, or before which, an edit was made was of the code before."""
    found = {}
    for kernels in ("torch", "auto"):
        with monkeypatch.context() as patch:
            found[kernels] = acted(name, way, kernels, tmp_path / kernels, patch)
    assert len(found["torch"]) > 0
    np.testing.assert_equal(found["auto"], found["torch"])


def test_an_edit_before_the_first_test_is_refused_where_compiled_code_is_required(
    tmp_path, monkeypatch
):
    with pytest.raises(ValueError, match=r"hardware\.kernels=compiled: .* was changed"):
        acted("choose", "on_train_start", "compiled", tmp_path, monkeypatch)
