"""An operator between acting and storing: steps with unwanted actions are stored with less reward.
The returns that are reported stay those of the environment.
"""

from __future__ import annotations

import numpy as np

from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.common.number_types import NonNegative, Probability, Whole, saved_number
from rltrain.types import StateDict, Steps


class ActionPenalty(Callback):
    """Takes ``weight`` off the reward of every step with one of ``actions`` (of a team reward:
    times the share of agents that chose one).

    With a ``rate`` the weight is a Lagrange multiplier: after every rollout it moves by ``rate *
    (share of such steps - limit)``, never below 0, so that the share settles at ``limit`` (dual
    ascent; Altman 1999, Constrained Markov Decision Processes).

    Reports ``custom/penalty_weight`` and ``custom/penalized_share``.

    Raises:
        ValueError: an action that the environment does not have.
    """

    state_names = ("weight",)

    def __init__(
        self,
        *,
        actions: list[Whole],
        weight: NonNegative,
        limit: Probability = 0.0,
        rate: NonNegative = 0.0,
    ) -> None:
        self.actions, self.weight, self.limit, self.rate = actions, weight, limit, rate

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        n_actions = trainer.about["spec"]["n_actions"]
        if any(action >= n_actions for action in self.actions):
            raise ValueError(
                f"ActionPenalty: actions={self.actions}, but this environment has the actions "
                f"0 … {n_actions - 1}."
            )

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        unwanted = np.isin(value.action, self.actions) & ~value.last[:, :, None]  # [T, E, N]
        if unwanted.shape != value.reward.shape:  # one reward for a team
            cost = unwanted.mean(-1, keepdims=True, dtype=np.float32)  # [T, E, 1]
        else:
            cost = unwanted.astype(np.float32)
        value.reward[:] -= np.float32(self.weight) * cost
        share = float(cost.sum()) / max(value.env_steps * cost.shape[-1], 1)
        trainer.metrics.add("custom", {"penalty_weight": self.weight, "penalized_share": share})
        self.weight = max(0.0, self.weight + self.rate * (share - self.limit))
        return value

    def load_state_dict(self, state: StateDict) -> None:
        self.weight = saved_number("weight", float(state["weight"]), 0.0)
