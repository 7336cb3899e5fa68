"""Recovery of shields, of zerg health and of healers' energy (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from rltrain.env.smac.engine.kernel import F, njit
from rltrain.env.smac.engine.world import P, U

ZERO, ONE = F(0), F(1)
SHIELD_DELAY = F(160)  # loops without damage until shields recover
SHIELD_RECOVERY = F(2 / 16)  # per loop
ENERGY_RECOVERY = F(0.5625 / 16)  # per loop


@njit()
def recover(unit, param):
    """One loop of recovery of the living: shields some time after the last hit, zerg health,
    healers' energy."""
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO:
            continue
        if unit[U.SHIELD_WAIT, i] > ZERO:
            unit[U.SHIELD_WAIT, i] -= ONE
        elif unit[U.SHIELD, i] < param[P.SHIELD, i]:
            unit[U.SHIELD, i] = min(unit[U.SHIELD, i] + SHIELD_RECOVERY, param[P.SHIELD, i])
        if unit[U.HEALTH, i] < param[P.HEALTH, i]:
            healed = unit[U.HEALTH, i] + param[P.REGENERATION, i]
            unit[U.HEALTH, i] = min(healed, param[P.HEALTH, i])
        if unit[U.ENERGY, i] < param[P.ENERGY, i]:
            unit[U.ENERGY, i] = min(unit[U.ENERGY, i] + ENERGY_RECOVERY, param[P.ENERGY, i])
