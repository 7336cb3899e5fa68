"""Overrides as Python gives them, the texts of a command line or a mapping of keys to values, and
other arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

from rltrain.config.catalog import FREE_FORM
from rltrain.config.command_line import typed
from rltrain.config.overrides import parse
from rltrain.config.validate.mode_keys import require_read
from rltrain.errors import UsageError

Overrides = Sequence[str] | Mapping[str, object]
MAPPING_KEYS = (*FREE_FORM, "test.function", "env.opponents")
"""Keys whose value is a mapping itself."""
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "resume": {"resume": "path"},
    "evaluate": {"checkpoint": "path", "load_step": "load_step"},
    "match": {"checkpoints": "checkpoints"},
}
"""Keys that are never overrides of a function of the Python interface, and its arguments for them.
"""


def as_texts(overrides: Overrides) -> list[str]:
    """Overrides as they would be typed: ``{"algo": "dqn", "seed": 1}`` as ``algo=dqn seed=1``.

    Args:
        overrides: a list of ``key=value``, or a mapping whose keys are dotted or nested.

    Raises:
        UsageError: neither, or a value that no configuration can hold.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={typed(value, key)}" for key, value in flat(overrides)]
    listed = isinstance(overrides, Iterable) and not isinstance(overrides, str)
    texts: list[Any] = list(overrides) if listed else [None]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(
            f"overrides={overrides!r}: expected a list such as ['algo=dqn', 'seed=1'] or a mapping "
            "such as {'algo': 'dqn', 'seed': 1}."
        )
    return texts


def texts_for(
    mode: str,
    overrides: Overrides,
    trust: str | Sequence[str] | None = (),
    arguments: Mapping[str, object] | None = None,
) -> list[str]:
    """The overrides that would be typed for a mode.

    Args:
        trust: your own packages, or one that a text names.
        arguments: values by key, None for those that were not given.

    Raises:
        UsageError: keys that the mode does not read, or that were given as arguments.
    """
    given = {key: value for key, value in (arguments or {}).items() if value is not None}
    named = [trust] if isinstance(trust, str) else trust or ()
    if not isinstance(named, Sequence) or not all(isinstance(name, str) for name in named):
        raise UsageError(f"trust={trust!r}: expected names of packages, such as ['mine'].")
    given |= {"trust": [*named]} if named else {}
    texts = as_texts(overrides)
    for text, o in zip(texts, parse(texts), strict=True):
        key = o.key_or_group
        if key in given or key in ARGUMENTS.get(mode, ()):
            name = ARGUMENTS.get(mode, {}).get(key, key.rpartition(".")[2])
            raise UsageError(
                f"{text}: rltrain.{mode} has the argument {name} for it. Leave it out of the "
                "overrides."
            )
        if key == "mode" and mode in ARGUMENTS and o.value() != mode:
            raise UsageError(
                f"{text}: the function that is called chooses what is done, here rltrain.{mode}. "
                "Leave it out of the overrides."
            )
    texts += [f"{key}={typed(value, key)}" for key, value in given.items()]
    require_read(texts, mode)
    return texts


def require_load_step(load_step: object, names: Sequence[str]) -> None:
    """UsageError for what neither is an env step nor one of ``names``."""
    number = isinstance(load_step, Real) and not isinstance(load_step, bool)
    name = load_step is None or (isinstance(load_step, str) and load_step in names)
    if not (number or name):
        raise UsageError(
            f"load_step={load_step!r}: expected the env step of a checkpoint, or "
            f"{' or '.join(map(repr, names))}."
        )


def flat(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted keys and values of a nested mapping."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key.lstrip("+") not in MAPPING_KEYS:
            yield from flat(value, f"{key}.")
        else:
            yield key, value
