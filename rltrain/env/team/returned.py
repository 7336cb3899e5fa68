"""The values that ``step`` of a parallel environment returns, by agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rltrain.env import gymnasium
from rltrain.errors import EnvError

PARTS = ("observations", "terminated", "truncated", "infos")


def require_by_agent(
    acting: Sequence[str], returned: Sequence[Any], where: Callable[[], str]
) -> None:
    """Check the dictionaries of a step.

    Args:
        acting: the agents that acted.
        returned: ``PARTS``.
        where: the environment and its step, for messages.

    Raises:
        EnvError: one is no dictionary, or does not say of every agent whether its episode ended.
    """
    for what, by_agent in zip(PARTS, returned, strict=True):
        if not isinstance(by_agent, Mapping):
            raise EnvError(
                f"{where()} returned {what} as {type(by_agent).__name__}: expected a dictionary by "
                "agent."
            )
        if what in ("terminated", "truncated") and any(name not in by_agent for name in acting):
            raise EnvError(
                f"{where()} returned {what} of {list(by_agent)}: expected True or False for each "
                f"of {list(acting)}, the agents that acted."
            )


def outcome_of(infos: list[Mapping[str, Any]], where: Callable[[], str]) -> dict[str, Any]:
    """``win`` (SMAC's ``battle_won`` as well) and ``metrics`` of the first agent whose final info
    has them; EnvError for what is neither a truth value nor numbers.
    """
    outcome: dict[str, Any] = {}
    for info in infos:
        won = {"win": info["battle_won"]} if "battle_won" in info else {}
        outcome = {**gymnasium.outcome_of({**won, **info}, where), **outcome}
    return outcome
