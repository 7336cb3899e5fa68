"""What a class or function can be given by keyword, its annotations in words, and values converted
to them.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from rltrain.common.imports import locate
from rltrain.common.number_types import (
    Count,
    Flag,
    Fraction,
    NonNegative,
    Positive,
    Probability,
    Real,
    Whole,
)
from rltrain.config.validate.signatures import Constructor, from_file

EXPECTED: tuple[tuple[Any, str], ...] = (
    (Whole, "a whole number, 0 or more"),
    (Count, "a whole number, 1 or more"),
    (Real, "a finite number"),
    (Positive, "a finite number above 0"),
    (NonNegative, "a finite number, 0 or more"),
    (Probability, "a number from 0 to 1"),
    (Fraction, "a number above 0, up to 1"),
    (Flag, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (bool, "true or false"),
    (str, "text"),
    (type(None), "null"),
    (Any, "a value"),
)
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def constructor_at(target: str, n_given: int = 0, facts: Sequence[str] = ()) -> Constructor:
    """The keywords of what a ``_target_`` names, without those in ``facts``; a class or function
    that rltrain ships is not imported for it.

    Args:
        n_given: how many of a function's first arguments its caller fills.

    Raises:
        UsageError: no such module or name.
    """
    found = None if n_given else from_file(target)
    found = found or constructor_of(locate(target), n_given)
    return replace(
        found, annotations={name: a for name, a in found.annotations.items() if name not in facts}
    )


def constructor_of(call: Callable[..., Any], n_given: int = 0) -> Constructor:
    """Read the signature of a class, or of a function whose first ``n_given`` arguments are filled
    by its caller.
    """
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except ValueError:  # compiled, without a signature
        return Constructor({}, {}, free=True)
    hints = hints_of(call)
    parameters = parameters if inspect.isclass(call) else parameters[n_given:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Constructor(
        annotations={p.name: hints.get(p.name, Any) for p in named},
        defaults={p.name: p.default for p in named if p.default is not p.empty},
        free=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def hints_of(call: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the arguments of a class or function, without those that name what its
    module imports for type checkers only.
    """
    function = call.__init__ if inspect.isclass(call) else call
    found: dict[str, Any] = {}
    for name, annotation in inspect.get_annotations(function).items():
        one = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            names = getattr(function, "__globals__", {})
            found |= get_type_hints(one, globalns=names, include_extras=True)
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue
    return found


def convert(annotation: Any, value: Any) -> Any:
    """A value from YAML or a command line as its annotation wants it: 1e6 becomes 1000000 where a
    whole number is expected, a list a tuple.

    Raises:
        ValidationError: the value is of another type or out of range.
    """
    try:
        adapter = adapter_of(annotation)
    except TypeError:  # metadata that cannot be a key
        adapter = adapter_of.__wrapped__(annotation)
    if adapter is None:  # an annotation for readers only
        return value
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        try:  # JSON has no tuples, paths or members of enumerations: it is not strict about those
            return adapter.validate_json(as_json(value), strict=True)
        except ValidationError:
            raise error from None


_ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)


@cache
def adapter_of(annotation: Any) -> TypeAdapter[Any] | None:
    """Pydantic's validator of an annotation, None if it cannot have one; made once, since the same
    few annotations recur.
    """
    try:
        return TypeAdapter(annotation, config=_ANY_CLASS)
    except PydanticUserError:
        return None


def as_json(value: Any) -> str:
    """A value as JSON, in which 1e6 is a whole number."""

    def number(text: str) -> int | float:
        found = float(text)
        return int(found) if found.is_integer() else found

    return json.dumps(json.loads(json.dumps(value), parse_float=number))


def expected(annotation: Any) -> str:
    """An annotation in words."""
    for known, words in EXPECTED:
        if annotation == known:
            return words
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(str(a) for a in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(expected(a) for a in inner)
    if origin is list:
        return f"a list, each {expected(inner[0])}"
    if origin is dict:
        return "a mapping"
    if origin is tuple:
        return f"a list: {', '.join('…' if a is ... else expected(a) for a in inner)}"
    if origin is Annotated:
        return ", ".join([expected(inner[0]), *bounds(inner[1:])])
    return str(getattr(annotation, "__name__", annotation))


def bounds(metadata: tuple[Any, ...]) -> list[str]:
    """The ranges in the metadata of an ``Annotated``, in words."""
    plain = [
        m for each in metadata for m in (each.metadata if isinstance(each, FieldInfo) else [each])
    ]
    return [
        f"{words} {getattr(each, name):g}"
        for each in plain
        for name, words in BOUNDS.items()
        if hasattr(each, name)
    ]
