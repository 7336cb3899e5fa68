"""The settings of a match, checked before anything is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rltrain.common.checkpoint.opponent_files import BUILTIN
from rltrain.config.compose import compose_single
from rltrain.config.overrides import require_one_value, typed_list, typed_value
from rltrain.errors import UsageError

MANY = 1_000
"""From this many pairings on, a number of battles has to be typed."""
OWN = ("mode", "match.battles", "checkpoints")


def requested(overrides: Sequence[str]) -> tuple[list[str], int, list[str]]:
    """The match that was typed: its agents, the battles of each pairing, and the other overrides.

    Raises:
        UsageError: too few or too many agents, one of them twice, or an odd number of battles.
    """
    require_one_value(overrides)
    others = [override for override in overrides if override.partition("=")[0] not in OWN]
    _, settings = compose_single([override for override in overrides if override not in others])
    agents, battles = typed_list(settings.run.checkpoints or "[]"), settings.run.match.battles
    n = len(agents)
    if n < 2:
        raise UsageError(
            f"A match has two agents or more, got {n}: type checkpoints='[A, B, builtin, closest]' "
            "with paths of checkpoints, names of scripted policies, and builtin for the enemies of "
            "the environment itself."
        )
    if several := [name for name, times in Counter(agents).items() if times > 1]:
        raise UsageError(f"checkpoints: {several[0]} is listed twice. Keep one of them.")
    pairings = n * (n - 1) // 2
    if pairings >= MANY and typed_value(overrides, "match.battles") is None:
        raise UsageError(
            f"{n} agents are {pairings:,} pairings, with match.battles={battles} "
            f"{pairings * battles:,} battles: type match.battles=N if you mean that, or leave out "
            "some agents."
        )
    if battles % 2 and n - (BUILTIN in agents) > 1:
        raise UsageError(
            f"match.battles={battles}: the agents of a pairing play half of the battles on each "
            "side. Expected an even number."
        )
    return agents, battles, others
