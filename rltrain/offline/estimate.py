"""Off-policy estimates of the tested policy's return from held-out episodes, at every test.

Importance sampling: Precup, Sutton and Singh (2000), "Eligibility traces for off-policy policy
evaluation", sections 2 and 3.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.normalization import RunningNorm
from rltrain.algo.policy import Policy
from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.interfaces import Agents
from rltrain.offline.dataset import Dataset
from rltrain.types import Clock

Episodes = Sequence[Mapping[str, np.ndarray]]
AT_ONCE = 32
"""Episodes that are unrolled side by side."""


class Estimate(Callback):
    """Adds importance-sampling estimates to the metrics of every test.

    Args:
        dataset: recorded episodes, with the probabilities of their actions.
        held_out: pieces that nothing is learned from, all of them whole episodes.
        exploration: how values become actions in the evaluated policy.
        gamma: discount.
    """

    def __init__(
        self, *, dataset: Dataset, held_out: np.ndarray, exploration: Exploration, gamma: float
    ) -> None:
        self.dataset, self.exploration, self.gamma = dataset, exploration, gamma
        self.held_out = held_out[np.argsort(dataset.length[held_out], kind="stable")]

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        model, clock = trainer.learner.online, trainer.tests.clock
        if trainer.tests.weights is not None:  # of a test that was played apart
            norms = [m for m in model.modules() if isinstance(m, RunningNorm)]
            model = copy.deepcopy(model, {id(norm): norm.separate() for norm in norms})
            model.load_state_dict(trainer.tests.weights["online"])
        ratio: list[np.ndarray] = []
        reward: list[np.ndarray] = []
        for i in range(0, len(self.held_out), AT_ONCE):
            episodes = [self.dataset.piece(int(n)) for n in self.held_out[i : i + AT_ONCE]]
            target = probabilities(model.agents, episodes, self.exploration, self.dataset, clock)
            for e, p in zip(episodes, target, strict=True):
                behavior = e["probability"][:-1].astype(np.float64).prod(-1)
                ratio.append(p.prod(-1) / behavior)  # agents choose independently of each other
                reward.append(e["reward"][:-1].mean(-1, dtype=np.float64))
        by_name = estimates(ratio, reward, self.gamma)._asdict()
        known = {f"offline/{name}": x for name, x in by_name.items() if math.isfinite(x)}
        return {**value, **known}


def probabilities(
    agents: Agents, episodes: Episodes, exploration: Exploration, dataset: Dataset, clock: Clock
) -> list[np.ndarray]:
    """How likely ``exploration`` makes the recorded actions with the agents' values: [L, N] of each
    episode.
    """
    spec, n = dataset.spec, len(episodes)
    length, last = np.array([len(e["last"]) - 1 for e in episodes]), np.zeros(n, np.bool_)
    policy = Policy(
        agents=agents,
        exploration=exploration,
        spec=spec,
        n_envs=n,
        rng=np.random.default_rng(0),
        noisy=False,
    )
    probability = np.empty((int(length.max()), n, spec.n_agents))
    for t in range(len(probability)):
        obs, available, action = (
            at(episodes, name, t, length) for name in ("obs", "avail_actions", "action")
        )
        policy.act(obs, available, last, clock)
        policy.last_action[:] = action  # the recorded one
        probability[t] = exploration.probability(policy.q, available, policy.last_action, clock)
    return [probability[:steps, i] for i, steps in enumerate(length.tolist())]


def at(episodes: Episodes, name: str, t: int, length: np.ndarray) -> np.ndarray:
    """A field of time step t of every episode, [n, …]; the final step of those that are over."""
    return np.stack([e[name][min(t, stop)] for e, stop in zip(episodes, length, strict=True)])


class Estimates(NamedTuple):
    """Mean discounted returns from the first state."""

    is_return: float  # per decision: unbiased, large variance
    wis_return: float  # weighted: biased, small variance; NaN where no episode has weight
    behavior_return: float  # of the recorded policy
    effective_sample_size: float  # (sum w)^2 / sum w^2 (Kong 1992): episodes that count


def estimates(ratio: Sequence[np.ndarray], reward: Sequence[np.ndarray], gamma: float) -> Estimates:
    """Estimates from n episodes.

    With rho_t = ratio_0 … ratio_t, w = rho of the last step and G = sum_t gamma^t reward_t:
    is = mean of sum_t gamma^t rho_t reward_t, wis = sum w G / sum w.

    Args:
        ratio: of each episode [L], pi(a_t | s_t) / b(a_t | s_t).
        reward: of each episode [L].
    """
    per_decision, plain, log_weight = [], [], []
    for ratios, rewards in zip(ratio, reward, strict=True):
        discounted = gamma ** np.arange(len(rewards)) * rewards
        with np.errstate(divide="ignore", over="ignore"):
            log_rho = np.cumsum(np.log(np.asarray(ratios, np.float64)))
            rho = np.exp(log_rho)
        earned = np.where(rewards == 0, 0.0, discounted)
        rho = np.where(rewards == 0, 0.0, rho)  # avoids infinity times 0
        per_decision.append(float((rho * earned).sum()))
        plain.append(float(discounted.sum()))
        log_weight.append(float(log_rho[-1]))
    logs, returns = np.array(log_weight), np.array(plain)
    if not np.isfinite(logs.max()):  # no episode is possible under pi
        return Estimates(float(np.mean(per_decision)), np.nan, float(returns.mean()), 0.0)
    weight = np.exp(logs - logs.max())  # both below are the same for any scale
    return Estimates(
        is_return=float(np.mean(per_decision)),
        wis_return=float((weight * returns).sum() / weight.sum()),
        behavior_return=float(returns.mean()),
        effective_sample_size=float(weight.sum() ** 2 / (weight**2).sum()),
    )
