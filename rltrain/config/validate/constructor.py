"""The keywords of classes and functions, their annotations in words, and values converted to them.

Those of the shipped configuration are read from ``signatures.json``, so that values are checked
without importing torch; ``python docs/signatures.py`` writes that file.
"""

from __future__ import annotations

import collections.abc
import hashlib
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from rltrain.common import number_types
from rltrain.common.files import JsonObject
from rltrain.common.imports import locate
from rltrain.common.number_types import (
    Count,
    Decay,
    Flag,
    Fraction,
    NonNegative,
    Positive,
    Probability,
    Real,
    Whole,
)
from rltrain.errors import UsageError

FILE = Path(__file__).with_name("signatures.json")
PACKAGE = Path(__file__).parents[2]
NAMES: Mapping[str, object] = {
    **{name: getattr(typing, name) for name in ("Annotated", "Any", "Literal")},
    **{name: getattr(collections.abc, name) for name in ("Mapping", "Sequence")},
    **{name: value for name, value in vars(number_types).items() if name[0].isupper()},
    "Field": Field,
}
"""Names that annotations in the file use, besides built-in types."""
WRITTEN = re.compile(
    r"^(?: *(?:def|class) | +(?:self|\*), | +\w+: | +['\"]\w|\w+ = ).*", re.MULTILINE
)
"""Lines of a module that a signature may consist of."""


@dataclass(frozen=True)
class Constructor:
    """The keywords of a class or function."""

    annotations: Mapping[str, object]  # Any where there is none that can be read
    defaults: Mapping[str, object]  # of the keywords that can be left out
    free: bool  # it takes any other keyword too


@cache
def from_file(target: str) -> Constructor | None:
    """The keywords of a ``_target_``; None if they are not in the file, or edited since."""
    saved = _saved()["targets"].get(target)
    if saved is None or any(_saved()["modules"][m] != digest(m) for m in saved["modules"]):
        return None
    texts = types.SimpleNamespace(__annotations__=saved["annotations"])
    annotations = typing.get_type_hints(texts, globalns=dict(NAMES), include_extras=True)
    return Constructor(annotations, saved["defaults"], saved["free"])


@cache
def _saved() -> JsonObject:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


@cache
def digest(module: str) -> str:
    """A digest of the definitions in a module of rltrain, such as ``algo/loss/td.py``."""
    path = PACKAGE / module
    lines: Iterable[str] = WRITTEN.findall(path.read_text("utf-8")) if path.is_file() else ()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


EXPECTED: tuple[tuple[object, str], ...] = (
    (Whole, "a whole number, 0 or more"),
    (Count, "a whole number, 1 or more"),
    (Real, "a finite number between -3e38 and 3e38"),
    (Positive, "a finite number above 0, at most 3e38"),
    (NonNegative, "a finite number, 0 or more, at most 3e38"),
    (Probability, "a number from 0 to 1"),
    (Fraction, "a number above 0, up to 1"),
    (Decay, "a number at least 0 and below 1"),
    (Flag, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (bool, "true or false"),
    (str, "text"),
    (type(None), "null"),
    (Any, "a value"),
)
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def find_constructor(target: str, n_given: int = 0) -> Constructor:
    """The keywords of what a ``_target_`` names; a class or function that rltrain ships is not
    imported for it.

    Args:
        n_given: how many of a function's first arguments its caller fills.

    Raises:
        UsageError: no such module or name, or one without a signature.
    """
    constructor = None if n_given else from_file(target)
    return constructor or read_constructor(locate(target), n_given)


def read_constructor(call: Callable[..., object], n_given: int = 0) -> Constructor:
    """Read the signature of a class, or of a function without its first ``n_given`` arguments.

    Raises:
        UsageError: it is compiled and has none.
    """
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except ValueError as error:
        raise UsageError(
            f"{getattr(call, '__qualname__', call)} is compiled and has no signature to read. Type "
            "the name of a Python class or function that calls it."
        ) from error
    hints = read_hints(call)
    parameters = parameters if inspect.isclass(call) else parameters[n_given:]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Constructor(
        annotations={p.name: hints.get(p.name, Any) for p in named},
        defaults={p.name: p.default for p in named if p.default is not p.empty},
        free=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def read_hints(call: Callable[..., object]) -> dict[str, object]:
    """The annotations of the arguments of a class or function, without those that name what its
    module imports for type checkers only.
    """
    function = call.__init__ if inspect.isclass(call) else call
    hints: dict[str, object] = {}
    for name, annotation in inspect.get_annotations(function).items():
        one = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            names = getattr(function, "__globals__", {})
            hints |= get_type_hints(one, globalns=names, include_extras=True)
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue
    return hints


def convert(annotation: object, value: object) -> Any:
    """A value from YAML or a command line as its annotation wants it: 1e6 becomes 1000000 where a
    whole number is expected, a list a tuple.

    Raises:
        ValidationError: the value has a different type or out of range.
    """
    try:
        adapter = make_adapter(annotation)
    except TypeError:  # metadata that cannot be a key
        adapter = make_adapter.__wrapped__(annotation)
    if adapter is None:  # an annotation for readers only
        return value
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        try:  # JSON has no tuples, paths or members of enumerations: it is not strict about those
            numbers = json.loads(json.dumps(value), parse_float=as_whole)  # 1e6 is a whole number
            return adapter.validate_json(json.dumps(numbers), strict=True)
        except ValidationError:
            raise error from None


@cache
def make_adapter(annotation: Any) -> TypeAdapter[Any] | None:
    """Pydantic's validator of an annotation, made once; None if it cannot have one."""
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        return None


def as_whole(text: str) -> int | float:
    """A number, whole if it can be."""
    number = float(text)
    return int(number) if number.is_integer() else number


def expected(annotation: object) -> str:
    """An annotation in words."""
    for known, words in EXPECTED:
        if annotation == known:
            return words
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return str(inner[0]) if len(inner) == 1 else "one of " + ", ".join(map(str, inner))
    if origin in (Union, types.UnionType):
        parts = [expected(a) for a in inner]
        return (", or " if any("," in part for part in parts) else " or ").join(parts)
    if origin in (list, Sequence):
        return f"a list, each {expected(inner[0])}"
    if origin in (dict, Mapping):
        return "a mapping" if inner[1] is Any else f"a mapping, each value {expected(inner[1])}"
    if origin is tuple:
        return f"a list: {', '.join('…' if a is ... else expected(a) for a in inner)}"
    if origin is Annotated:
        return ", ".join([expected(inner[0]), *bounds(inner[1:])])
    return str(getattr(annotation, "__name__", annotation))


def bounds(metadata: tuple[object, ...]) -> list[str]:
    """The ranges in the metadata of an ``Annotated``, in words: the last, which are narrowest."""
    plain = [
        m for each in metadata for m in (each.metadata if isinstance(each, FieldInfo) else [each])
    ]
    patterns = filter(None, (getattr(each, "pattern", None) for each in plain))
    ends = {
        name[0]: f"{words} {getattr(each, name):g}"
        for each in plain
        for name, words in BOUNDS.items()
        if hasattr(each, name)
    }
    return [*(f"matching {pattern}" for pattern in patterns), *ends.values()]


def brief(value: object) -> str:
    """The beginning of what is typed for a value."""
    return f"{show(value):.200}"


def show(value: object) -> str:
    """A value as it would be typed."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(v) for v in value) + "]"
    return str(value) or "''"


def literals(annotation: object) -> list[str]:
    """The values of an enumeration, as they are typed."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for part in get_args(annotation) for value in literals(part)]
