"""``flat_keywords``: a dataclass as the keywords of a constructor or function, and
``FlatSettings``, as attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

Made = TypeVar("Made")
PASSED_WHOLE = "rltrain.types"
"""The module of dataclasses that are passed as they are: a running program supplies them."""


def flat_keywords(
    function: Callable[..., Made], replaced: Mapping[object, object] = MappingProxyType({})
) -> Callable[..., Made]:
    """Replace dataclasses of settings among keyword-only arguments by their fields.

    ::

        @flat_keywords
        def __init__(self, *, map_name: str, options: Options) -> None: ...

    is called as ``(map_name="3m", step_mul=8)``. The signature lists the fields, with annotations
    exchanged for those in ``replaced``.
    """
    hints = get_type_hints(function, include_extras=True)
    written = inspect.signature(function)
    records = {
        name: hints[name]
        for name in written.parameters
        if is_dataclass(hints.get(name)) and hints[name].__module__ != PASSED_WHOLE
    }
    names = {name: [f.name for f in fields(record)] for name, record in records.items()}
    parameters: list[inspect.Parameter] = []
    for name, parameter in written.parameters.items():
        if name in records:
            types = get_type_hints(records[name], include_extras=True)
            given = inspect.signature(records[name]).parameters.values()
            parameters += [p.replace(annotation=types[p.name]) for p in given]
        else:
            parameters.append(parameter.replace(annotation=hints.get(name, parameter.annotation)))

    @wraps(function)
    def flat(*args: object, **keywords: Any) -> Made:
        for name, record in records.items():
            values = {field: keywords.pop(field) for field in names[name] if field in keywords}
            keywords[name] = record(**values)
        return function(*args, **keywords)

    if replaced:
        known = [replaced.get(p.annotation, p.annotation) for p in parameters]
        parameters = [p.replace(annotation=a) for p, a in zip(parameters, known, strict=True)]
    vars(flat)["__signature__"] = written.replace(parameters=parameters)
    flat.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    return flat


class FlatSettings:
    """Mixin for an object with dataclasses of settings, whose fields are attributes of its own, as
    they are keywords of its constructor: ``loss.gamma = 0.9`` replaces ``loss.returns``.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self._settings():
            return getattr(vars(self)[self._settings()[name]], name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        """Raises ValueError for a value that contradicts the other settings."""
        if holder := self._settings().get(name):
            name, value = holder, replace(vars(self)[holder], **{name: value})
        super().__setattr__(name, value)

    def _settings(self) -> dict[str, str]:
        """The attribute that holds each setting."""
        held = {name: x for name, x in vars(self).items() if is_dataclass(x)}
        return {field.name: name for name, x in held.items() for field in fields(x)}
