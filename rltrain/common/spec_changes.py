"""How the spaces of an environment differ from those of another one with the same sizes: networks
and recorded steps of the one would be read wrongly in the other.

To compare something else: a function from the record of a spec to a text, and its line in
``FACTS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from rltrain.common.space_record import space_words


def changes(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The differences between two specs, "observations Box(3,) float32, here Discrete(3)"; nothing
    where all is the same.

    Args:
        theirs: ``EnvSpec.record`` of a checkpoint or a dataset, also as read from JSON.
        ours: that of the environment here.
    """
    there, here = (json.loads(json.dumps(record)) for record in (theirs, ours))
    if there == here:
        return ""
    differences = []
    for name, words in FACTS.items():
        then, now = words(there), words(here)
        if then is not None and now is not None and then != now:
            differences.append(f"{name} {then}, here {now}")
    return "; ".join(differences)


def observation_words(spec: Mapping[str, Any]) -> str | None:
    """The observation space of one agent; None where it is not known."""
    space = spec.get("obs_space")
    return None if space is None else space_words(space)


def stored_words(spec: Mapping[str, Any]) -> str:
    """Type and scale of observations, as networks get them."""
    scale = Fraction(spec.get("obs_scale", 1.0)).limit_denominator(1_000_000)
    return f"{spec.get('obs_dtype', 'float32')} × {scale}"


def action_words(spec: Mapping[str, Any]) -> str:
    """The actions of one agent."""
    components = spec.get("action_components")
    if components is None:
        return space_words({"discrete": spec["n_actions"], "start": spec.get("first_action", 0)})
    sizes, starts = zip(*components, strict=True)
    return space_words({"multi_discrete": list(sizes), "start": list(starts)})


def agents_words(spec: Mapping[str, Any]) -> str | None:
    """The names of a team's agents in their order; None where they have none."""
    each = spec.get("agents")
    return None if each is None else ", ".join(name for name, *_ in each)


def spaces_words(spec: Mapping[str, Any]) -> str | None:
    """Observations and actions of a team's agents."""
    each = spec.get("agents")
    if each is None:
        return None
    own = {name: f"{space_words(seen)} and {space_words(acts)}" for name, seen, acts in each}
    if len(set(own.values())) == 1:
        return next(iter(own.values()))
    return ", ".join(f"{name} {own[name]}" for name in sorted(own))


FACTS: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "observations": observation_words,
    "stored observations": stored_words,
    "actions": action_words,
    "agents": agents_words,
    "their spaces": spaces_words,
}
