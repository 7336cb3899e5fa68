"""Importance sampling: estimates of another policy's return from recorded episodes.

Precup, Sutton and Singh (2000), "Eligibility traces for off-policy policy evaluation", sections 2
and 3. Pure functions of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


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
