"""Outcome of a battle and reward of a step, as in SMAC (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.world import Outcome, P, U

ZERO = F(0)


@njit()
def outcome_of(unit, param, n_agents, heals, commanded, limit, steps):
    """Outcome after a step, in SMAC's order: defeat, win, no unit left, time limit.

    With healers on the map a team with nothing else left has lost, the agents' one first; then
    there is no draw, except where the enemies are commanded as the agents are.
    """
    allies = enemies = fighters = 0
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] > ZERO:
            fights = param[P.ENERGY, i] == ZERO
            if i >= n_agents:
                enemies += 1
                fighters += fights
            elif fights:
                allies += 1
    if allies == 0:
        if commanded:
            return Outcome.DEFEAT if fighters > 0 else Outcome.DRAW
        return Outcome.DEFEAT if enemies > 0 or heals else Outcome.DRAW
    if fighters == 0:
        return Outcome.WIN
    return Outcome.TIMEOUT if steps >= limit else Outcome.RUNNING


@njit()
def reward_of(rule, unit, n_agents, outcome):
    """SMAC's reward (float64): damage dealt and kills, absolute value included, then the bonus of
    the end."""
    if rule.sparse:
        reward = 1.0 if outcome == Outcome.WIN else (-1.0 if outcome == Outcome.DEFEAT else 0.0)
        return reward * rule.factor
    gain = loss = 0.0
    for i in range(unit.shape[1]):
        before = np.float64(unit[U.BEFORE, i])
        if before <= 0.0:
            continue
        dies = unit[U.HEALTH, i] <= ZERO
        change = before if dies else before - unit[U.HEALTH, i] - unit[U.SHIELD, i]
        worth = change + rule.death_value if dies else change
        if i >= n_agents:
            gain += worth
        else:
            loss += worth * rule.negative_scale
    reward = gain - loss
    if rule.only_positive:
        reward = max(gain, 0.0) if rule.clamps else abs(gain)
    if outcome == Outcome.WIN:
        reward += rule.win
    elif outcome == Outcome.DEFEAT:
        reward += rule.defeat
    return reward * rule.factor
