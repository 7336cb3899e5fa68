"""Write rltrain/config/validate/signatures.json from the classes and functions that the shipped
configuration names: python docs/signatures.py
"""

from __future__ import annotations

import collections.abc
import inspect
import json
import re
import types
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from torch import nn

from rltrain.common.imports import locate
from rltrain.config.catalog import CONF
from rltrain.config.node import FACTS
from rltrain.config.validate.constructor import FILE, NAMES, digest, read_constructor

GIVEN = {name for names in FACTS.values() for name in names}
"""Keywords that the running program supplies. Annotations of theirs that import torch are Any."""


def shipped() -> list[str]:
    """Every ``_target_`` of the shipped configuration."""
    texts = [file.read_text(encoding="utf-8") for file in CONF.rglob("*.yaml")]
    return sorted({target for text in texts for target in re.findall(r"_target_: *(\S+)", text)})


def spelled(annotation: Any) -> str:
    """An annotation as an expression of the names that the file may use."""
    for name, known in NAMES.items():
        if annotation == known:
            return name
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "None"
    if origin is collections.abc.Callable:
        return "Any"
    if origin in (Union, types.UnionType):
        return " | ".join(map(spelled, inner))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is Annotated:
        limits = [m for field in inner[1:] for m in field.metadata if isinstance(field, FieldInfo)]
        given = {k: v for limit in limits for k, v in vars_of(limit).items()}
        listed = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"Annotated[{spelled(inner[0])}, Field({listed})]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(spelled, inner))}]"
    return annotation.__name__ if annotation in (int, bool, str, list) else "Any"


def vars_of(limit: Any) -> dict[str, Any]:
    """The fields of a limit of pydantic's, such as ``MinLen(min_length=2)``."""
    return {name: getattr(limit, name) for name in type(limit).__dataclass_fields__}


def modules(call: Any) -> list[str]:
    """The files of rltrain that hold the signature of a class or function: those of the class and
    of the base that has its constructor, and of the dataclasses among its arguments.
    """
    function = call.__init__ if inspect.isclass(call) else call
    try:
        hints = get_type_hints(inspect.unwrap(function)).values()
    except NameError:  # an annotation for type checkers only
        hints = ()
    records = [base for hint in hints if is_dataclass(hint) for base in hint.__mro__]
    names = [part.__module__ for part in (call, function, *records)]
    files = [f"{name.removeprefix('rltrain.').replace('.', '/')}.py" for name in names]
    own = [file for name, file in zip(names, files, strict=True) if name.startswith("rltrain.")]
    return [file for file in dict.fromkeys(own) if file != "types.py"]


def signature(target: str) -> dict[str, Any]:
    """What the file says of a ``_target_``."""
    call = locate(target)
    found = read_constructor(call)
    return {
        "modules": modules(call),
        "annotations": {name: spelled(a) for name, a in found.annotations.items()},
        "defaults": found.defaults,
        "free": found.free and call.__init__ is not nn.Module.__init__,  # which refuses it
    }


def written() -> str:
    """The text of the file."""
    targets = {target: signature(target) for target in shipped()}
    names = sorted({module for each in targets.values() for module in each["modules"]})
    digests = {module: digest(module) for module in names}
    return json.dumps({"modules": digests, "targets": targets}, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
