"""Check that an object has the members of its interface; missing optional ones get defaults."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

Interface = TypeVar("Interface")


def conform(part: Any, interface: type[Interface], name: str) -> Interface:
    """A part with every member of its interface, those that it may leave out with their defaults.

    Args:
        interface: a base class, or a protocol, of which it need not be a subclass. Attributes
            without a value and methods without a default are required; a string in an attribute's
            ``Annotated`` describes it.
        name: what the part is in a configuration, such as algo.loss.

    Raises:
        ValueError: names every missing or wrong member.
    """
    problems = []
    kind: type = interface
    for member, annotation in attributes(kind):
        if not hasattr(part, member) and hasattr(interface, member):
            give(part, member, getattr(interface, member), name)
        problem = attribute_problem(part, member, annotation)
        problems += [problem] if problem else []
    for member, method in methods(interface):
        own = getattr(part, member, None)
        there = callable(own) and not getattr(own, "__isabstractmethod__", False)
        if isinstance(method, property):
            if not hasattr(part, member) and method.fget is not None:
                give(part, member, method.fget(part), name)
        elif not there and has_default(interface, method):
            give(part, member, types.MethodType(method, part), name)
        elif not there:
            problems.append(f"{member}{'' if member != '__call__' else ': it cannot be called'}")
    if problems:
        raise ValueError(
            f"{type(part).__name__} ({name}) lacks {'; '.join(problems)}. Expected what "
            f"{interface.__module__}.{interface.__name__} describes."
        )
    return part


def has_default(interface: type, method: Any) -> bool:
    """Whether a method may be left out."""
    if getattr(interface, "_is_protocol", False):
        return bool(getattr(method, "optional", False))
    return not getattr(method, "__isabstractmethod__", False)


@cache
def attributes(interface: type) -> tuple[tuple[str, Any], ...]:
    """The annotated attributes of an interface, inherited ones included."""
    hints = get_type_hints(interface, include_extras=True)
    names = (name for each in parents(interface) for name in inspect.get_annotations(each))
    return tuple((name, hints[name]) for name in names)


def methods(interface: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties of an interface, inherited ones included."""
    for each in parents(interface):
        for name, member in vars(each).items():
            if isinstance(member, (types.FunctionType, property)) and (
                not name.startswith("_") or name == "__call__"
            ):
                yield name, member


def parents(interface: type) -> Iterator[type]:
    """The classes that an interface is made of, without those of libraries."""
    libraries = ("typing", "builtins", "torch")
    return (c for c in reversed(interface.__mro__) if c.__module__.split(".")[0] not in libraries)


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
