"""Check that an object has the members of its interface; missing optional ones get defaults."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from rltrain.common.checkpoint import split
from rltrain.common.stateful import Stateful, class_name
from rltrain.errors import reason

Interface = TypeVar("Interface")
REQUIRED = object()
"""In place of a missing default, and of a member that a part lacks."""
WHOLES = ("env", "algo", "run")
"""Names of what may hold the user's own parts."""
LIBRARIES = ("typing", "builtins", "torch")
"""Packages whose classes are not part of an interface."""


def conform(part: Any, interface: type[Interface], name: str) -> Interface:
    """A part with every member of its interface, those that it may leave out with their defaults.

    Args:
        interface: a base class, or a protocol, of which it need not be a subclass. Attributes
            without a value and methods without a default are required; a string in an attribute's
            ``Annotated`` describes it.
        name: what the part is in a configuration, such as algo.loss.

    Raises:
        ValueError: names every missing or wrong member; or the part cannot have attributes.
    """
    problems = []
    base: type = interface
    for member, (annotation, default) in members(base).items():
        kind, meaning = annotation, ""
        if get_origin(annotation) is Annotated:
            kind, meaning = get_args(annotation)[:2]
        named = f"{member} ({meaning})" if meaning else member
        try:
            own = getattr(part, member, REQUIRED)
        except Exception:  # of a property, which training may yet make ready
            own = None
        is_method = annotation is None and not isinstance(default, property)
        if is_method and (not callable(own) or getattr(own, "__isabstractmethod__", False)):
            own = REQUIRED
        if own is REQUIRED and default is not REQUIRED:
            try:
                setattr(part, member, default.__get__(part) if annotation is None else default)
            except AttributeError as error:
                raise ValueError(
                    f"{type(part).__name__} ({name}) lacks {member}, and it cannot be given one: "
                    f"{error}."
                ) from error
        elif own is REQUIRED:
            problems.append(named + (": it cannot be called" if member == "__call__" else ""))
        elif kind in (int, bool, str) and not isinstance(own, kind):
            problems.append(f"a valid {named}: expected {kind.__name__}, got {own!r}")
    if problems:
        raise ValueError(
            f"{type(part).__name__} ({name}) lacks {'; '.join(problems)}. Expected what "
            f"{interface.__module__}.{interface.__name__} describes."
        )
    if issubclass(base, Stateful):
        require_savable(part, name)
    return part


def require_savable(part: Any, name: str, *, begun: bool = False) -> None:
    """Refuse the user's own part whose state no checkpoint can hold.

    Args:
        begun: training has, which makes the state of some.

    Raises:
        ValueError: where in the state it is, or what its ``state_dict`` raised.
    """
    if type(part).__module__.startswith("rltrain.") and name not in WHOLES:
        return
    try:
        state: object = getattr(part, "state_dict", dict)()  # a function has none
    except Exception as error:
        if not begun:
            return
        named = f"; state_names={part.state_names!r}" if hasattr(part, "state_names") else ""
        raise ValueError(
            f"{name}: the state_dict of {class_name(part)} cannot be saved in checkpoints "
            f"({reason(error)}{named}). Expected one that works once training has started."
        ) from error
    try:
        if not isinstance(state, Mapping):
            raise TypeError(f"it is {state!r}")
        split(state)
    except TypeError as error:
        raise ValueError(
            f"{name}: the state_dict of {class_name(part)} cannot be saved in checkpoints "
            f"({error}). Expected dictionaries and lists of numbers, text, arrays and tensors."
        ) from error


@cache
def members(interface: type) -> Mapping[str, tuple[Any, Any]]:
    """Annotation (None of methods and properties) and default of an interface's members."""
    classes = [
        c for c in reversed(interface.__mro__) if c.__module__.split(".")[0] not in LIBRARIES
    ]
    names = [name for each in classes for name in inspect.get_annotations(each)]
    hints = get_type_hints(interface, include_extras=True)
    found = {name: (hints[name], getattr(interface, name, REQUIRED)) for name in names}
    protocol = getattr(interface, "_is_protocol", False)
    for name, member in (item for each in classes for item in vars(each).items()):
        public = name == "__call__" or not name.startswith("_")
        if public and isinstance(member, property):
            found[name] = None, member
        elif public and isinstance(member, types.FunctionType):
            abstract = getattr(member, "__isabstractmethod__", False)
            optional = getattr(member, "optional", False) if protocol else not abstract
            found[name] = None, member if optional else REQUIRED
    return found
