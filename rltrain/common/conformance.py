"""Check that an object has the members of its interface; missing optional ones get defaults."""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


def conform(part: Any, interface: type, name: str) -> Any:
    """A part with every member of its interface, those that it may leave out with their defaults.

    Args:
        interface: a protocol. Attributes without a value and methods that are not ``optional`` are
            required; a string in an attribute's ``Annotated`` describes it.
        name: what the part is in a configuration, such as algo.loss.

    Raises:
        ValueError: names every missing or wrong member.
    """
    problems = []
    for member, annotation in attributes(interface):
        if not hasattr(part, member) and hasattr(interface, member):
            give(part, member, getattr(interface, member), name)
        problem = attribute_problem(part, member, annotation)
        problems += [problem] if problem else []
    for member, method in methods(interface):
        there = callable(getattr(part, member, None))
        if not there and getattr(method, "optional", False):
            give(part, member, types.MethodType(method, part), name)
        elif not there:
            problems.append(f"{member}{'' if member != '__call__' else ': it cannot be called'}")
    if problems:
        raise ValueError(
            f"{type(part).__name__} ({name}) lacks {'; '.join(problems)}. Expected what "
            f"{interface.__module__}.{interface.__name__} describes."
        )
    return part


@cache
def attributes(interface: type) -> tuple[tuple[str, Any], ...]:
    """The annotated attributes of a protocol, inherited ones included."""
    return tuple(get_type_hints(interface, include_extras=True).items())


def methods(interface: type) -> Iterator[tuple[str, Any]]:
    """The methods of a protocol, inherited ones included."""
    for each in reversed(interface.__mro__):
        for name, member in vars(each).items():
            public = not name.startswith("_") or name == "__call__"
            if isinstance(member, types.FunctionType) and public and each.__module__ != "typing":
                yield name, member


def attribute_problem(part: Any, member: str, annotation: Any) -> str:
    """The problem with an attribute, "" for none."""
    kind, meaning = annotation, ""
    if get_origin(annotation) is Annotated:
        kind, meaning = get_args(annotation)[:2]
    of = f" ({meaning})" if meaning else ""
    if not hasattr(part, member):
        return f"{member}{of}"
    value = getattr(part, member)
    if kind in (int, bool, str) and not isinstance(value, kind):
        return f"a valid {member}{of}: expected {kind.__name__}, got {value!r}"
    return ""


def give(part: Any, member: str, value: Any, name: str) -> None:
    """Set a default.

    Raises:
        ValueError: the part cannot have attributes.
    """
    try:
        setattr(part, member, value)
    except AttributeError as error:
        raise ValueError(
            f"{type(part).__name__} ({name}) lacks {member}, and it cannot be given one: {error}."
        ) from error
