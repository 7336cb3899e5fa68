"""Players written by hand, to measure trained teams against.

A new one is a function of a ``Look`` to actions [E, A], or a class of such that remembers, and a
row of ``SCRIPTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rltrain.env.smac.battles import Battles
from rltrain.env.smac.look import (
    NO_TARGET,
    Look,
    attack,
    fight,
    look_at,
    of_target,
    pick,
    toward,
    walk,
)
from rltrain.env.smac.observe import FIRST_ATTACK, STOP
from rltrain.env.smac.tactics import Alternate, kite, spread

Script = Callable[[Look], np.ndarray]


def stop(look: Look) -> np.ndarray:
    """Stand still: SMAC's agents never fight on their own."""
    return np.full(look.avail.shape[:2], STOP)


def closest(look: Look) -> np.ndarray:
    """Attack the nearest enemy in reach, else walk to the nearest one."""
    return fight(look, look.distance)


def focus(look: Look) -> np.ndarray:
    """Attack the weakest enemy in reach, else walk to the nearest one."""
    return fight(look, look.strength)


class Heuristic:
    """SMAC's built-in player: attack the nearest enemy wherever it is, until it is dead; healers
    mend the nearest hurt friend until it is well.

    An attack on somebody out of reach is no action, so as a policy it walks there first.
    """

    def __init__(self) -> None:
        self._target = np.zeros((0, 0), np.int64)  # [E, A]

    def __call__(self, look: Look) -> np.ndarray:
        target = self._targets(look)
        return attack(look, target, walk(look, target))

    def orders(self, look: Look, *, rest: bool) -> np.ndarray:
        """What SMAC tells the game [E, A], available or not: attack from any distance, or with
        ``rest`` walk along the longer axis, walls or not, while the attack is not available.
        Whoever has no target does nothing: 0.
        """
        target = self._targets(look)
        chase = FIRST_ATTACK + target
        order = attack(look, target, toward(look, target)[0]) if rest else chase
        return np.where((target == NO_TARGET) | look.avail[:, :, 0], 0, order)

    def _targets(self, look: Look) -> np.ndarray:
        if self._target.shape != look.avail.shape[:2]:
            self._target = np.full(look.avail.shape[:2], NO_TARGET)
        self._target[look.begins] = NO_TARGET
        keeps = (self._target != NO_TARGET) & of_target(look.wanted, self._target)
        self._target = np.where(keeps, self._target, pick(look.distance, look.wanted))
        return self._target


SCRIPTS: Mapping[str, Callable[[], Script]] = {
    "stop": lambda: stop,
    "closest": lambda: closest,
    "focus": lambda: focus,
    "heuristic": Heuristic,
    "kite": lambda: kite,
    "spread": lambda: spread,
    "alternate": Alternate,
}
"""By name, what makes a player of E battles."""


def script(battles: Battles, name: str) -> Callable[[], np.ndarray]:
    """The player ``name`` of these battles: each call gives the actions [E, A] of their current
    step, always available ones.

    Raises:
        ValueError: there is no such player.
    """
    if name not in SCRIPTS:
        raise ValueError(f"unknown script {name!r}: expected one of {', '.join(SCRIPTS)}")
    play = SCRIPTS[name]()

    def act() -> np.ndarray:
        look = look_at(battles)
        return np.where(look.avail[:, :, 0], 0, play(look))

    return act
