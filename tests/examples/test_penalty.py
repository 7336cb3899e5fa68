"""The reward-penalty operator: what is stored costs, what is reported does not."""

from types import SimpleNamespace

import numpy as np
import pytest

import rltrain
from rltrain.callback import Callbacks
from rltrain.common.metrics import Metrics
from rltrain.examples.penalty import ActionPenalty
from rltrain.types import Steps


def steps(action, n_rewards=1, last=None):
    """One copy; rewards of 1."""
    action = np.array(action)[:, None]  # [T, 1, N]
    n_steps = len(action)
    return Steps(
        obs=np.zeros((n_steps, 1, 2, 1)),
        avail_actions=np.ones((n_steps, 1, 2, 3)),
        state=np.zeros((n_steps, 1, 0)),
        last=np.zeros((n_steps, 1), bool) if last is None else np.array(last)[:, None],
        action=action,
        reward=np.ones((n_steps, 1, n_rewards), np.float32),
        terminated=np.zeros((n_steps, 1), bool),
        lost=np.zeros(1, bool),
    )


def looking(n_actions=3):
    return SimpleNamespace(metrics=Metrics(), about={"spec": {"n_actions": n_actions}})


def test_a_team_pays_for_the_share_of_agents_that_chose_the_action():
    penalty = ActionPenalty(actions=[1, 2], weight=0.5)
    value = penalty.on_collect(looking(), steps([[0, 0], [1, 0], [1, 2]]))
    assert value.reward.ravel().tolist() == [1.0, 0.75, 0.5]


def test_agents_with_rewards_of_their_own_pay_for_themselves():
    value = ActionPenalty(actions=[1], weight=2.0).on_collect(looking(), steps([[0, 1]], 2))
    assert value.reward.ravel().tolist() == [1.0, -1.0]


def test_final_steps_cost_nothing_and_do_not_count():
    trainer = looking()
    value = ActionPenalty(actions=[1], weight=1.0).on_collect(
        trainer, steps([[1, 1], [1, 1]], last=[False, True])
    )
    assert value.reward.ravel().tolist() == [0.0, 1.0]
    assert trainer.metrics.take()["custom/penalized_share"] == 1.0


def test_the_weight_follows_the_share_and_stays_above_zero():
    penalty, trainer = ActionPenalty(actions=[1], weight=1.0, limit=0.25, rate=2.0), looking()
    penalty.on_collect(trainer, steps([[1, 0], [1, 1]]))  # share 0.75
    assert penalty.weight == 2.0
    for _ in range(9):
        penalty.on_collect(trainer, steps([[0, 0]]))
    assert penalty.weight == 0.0
    assert trainer.metrics.sums["custom/penalty_weight"] > 1.0


def test_its_weight_is_saved():
    one, other = (ActionPenalty(actions=[1], weight=w) for w in (3.0, 0.0))
    other.load_state_dict(one.state_dict())
    assert other.weight == 3.0


def test_actions_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"actions=\[3\].* 0 … 2"):
        ActionPenalty(actions=[3], weight=1.0).on_train_start(looking())


def test_it_is_named_on_the_command_line(small, tmp_path):
    word = "callbacks=[{_target_: rltrain.examples.ActionPenalty, actions: [0], weight: 9}]"
    trainer = rltrain.make_trainer([*small, word], run_dir=tmp_path)
    penalty = trainer.callbacks.callbacks[0]
    assert (penalty.actions, penalty.weight) == ([0], 9.0)
    trainer.callbacks = Callbacks([penalty])
    trainer.run(60)
    assert min(trainer.buffer.sample(8, trainer.clock).reward.flatten().tolist()) < 0
    assert trainer.metrics.take()["train/return_mean"] >= 0
