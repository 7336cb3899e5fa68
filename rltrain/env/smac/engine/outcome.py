"""How a battle ends and what a step pays, as SMAC has it (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.engine.kernel import F, njit
from rltrain.env.smac.engine.world import (
    BEFORE,
    DEFEAT,
    DRAW,
    HEALTH,
    P_ENERGY,
    RUNNING,
    SHIELD,
    TIMEOUT,
    WIN,
)

ZERO = F(0)


@njit()
def outcome_of(unit, param, n_agents, heals, limit, steps):
    """Outcome after a step, in SMAC's order: defeat, win, no unit left, time limit.

    With healers on the map a team with nothing else left has lost, the agents' one first; then
    there is no draw.
    """
    allies = enemies = fighters = 0
    for i in range(unit.shape[1]):
        if unit[HEALTH, i] > ZERO:
            fights = param[P_ENERGY, i] == ZERO
            if i >= n_agents:
                enemies += 1
                fighters += fights
            elif fights:
                allies += 1
    if allies == 0:
        return DEFEAT if enemies > 0 or heals else DRAW
    if fighters == 0:
        return WIN
    return TIMEOUT if steps >= limit else RUNNING


@njit()
def reward_of(rule, unit, n_agents, outcome):
    """SMAC's reward (float64): damage dealt and kills, absolute value included, then the bonus of
    the end."""
    if rule.sparse:
        reward = 1.0 if outcome == WIN else (-1.0 if outcome == DEFEAT else 0.0)
        return reward * rule.factor
    gain = loss = 0.0
    for i in range(unit.shape[1]):
        before = np.float64(unit[BEFORE, i])
        if before <= 0.0:
            continue
        dies = unit[HEALTH, i] <= ZERO
        change = before if dies else before - unit[HEALTH, i] - unit[SHIELD, i]
        worth = change + rule.death_value if dies else change
        if i >= n_agents:
            gain += worth
        else:
            loss += worth * rule.negative_scale
    reward = gain - loss
    if rule.only_positive:
        reward = max(gain, 0.0) if rule.clamps else abs(gain)
    if outcome == WIN:
        reward += rule.win
    elif outcome == DEFEAT:
        reward += rule.defeat
    return reward * rule.factor
