"""Overrides as Python gives them: the texts of a command line, or a mapping of keys to values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.config.command_line import in_quotes
from rltrain.config.suggest.keys import FREE_FORM
from rltrain.errors import UsageError

Overrides = Sequence[str] | Mapping[str, Any]
WHOLE = (*FREE_FORM, "test.function")
"""Keys whose value is a mapping itself."""
BARE = re.compile(r"[A-Za-z_][\w./:-]*")
"""Texts that need no quotes, unless they mean something else in YAML."""
NO_TEXTS = ("null", "true", "false", "nan", "inf")


def as_texts(overrides: Overrides) -> list[str]:
    """Overrides as they would be typed: ``{"algo": "dqn", "seed": 1}`` as ``algo=dqn seed=1``.

    Args:
        overrides: a list of ``key=value``, or a mapping whose keys are dotted or nested.

    Raises:
        UsageError: neither, or a value that no configuration can hold.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={typed(value, key)}" for key, value in flat(overrides)]
    texts = overrides if isinstance(overrides, str) else list(overrides)
    if isinstance(overrides, str) or not all(isinstance(text, str) for text in texts):
        raise UsageError(
            f"overrides={overrides!r}: expected a list such as ['algo=dqn', 'seed=1'] or a mapping "
            "such as {'algo': 'dqn', 'seed': 1}."
        )
    return [*texts]


def flat(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a nested mapping."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key.lstrip("+") not in WHOLE:
            yield from flat(value, f"{key}.")
        else:
            yield key, value


def typed(value: object, key: str) -> str:
    """A value in Hydra's grammar.

    Raises:
        UsageError: a value that no configuration can hold.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, Path)):
        text = str(value)
        bare = BARE.fullmatch(text) and text.lower() not in NO_TEXTS
        return text if bare else in_quotes(text)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {typed(v, key)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(typed(each, key) for each in value) + "]"
    if isinstance(value, type):
        raise UsageError(
            f"{key}={value.__name__}: a configuration names classes. Give it as "
            f"'{key}._target_': '{value.__module__}.{value.__qualname__}'."
        )
    raise UsageError(
        f"{key}={value!r}: expected a number, text, true or false, None, or lists and mappings of "
        f"them, got {type(value).__name__}."
    )
