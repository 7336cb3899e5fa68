"""What the classes and functions of the shipped configuration take, from ``signatures.json``, so
that values are checked without importing torch. ``python docs/signatures.py`` writes that file.
"""

from __future__ import annotations

import collections.abc
import hashlib
import json
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import Field

from rltrain.common import number_types

FILE = Path(__file__).with_name("signatures.json")
PACKAGE = Path(__file__).parents[2]
NAMES: Mapping[str, Any] = {
    **{name: getattr(typing, name) for name in ("Annotated", "Any", "Literal")},
    **{name: getattr(collections.abc, name) for name in ("Mapping", "Sequence")},
    **{name: value for name, value in vars(number_types).items() if name[0].isupper()},
    "Field": Field,
}
"""What annotations in the file are made of, beside built-in types."""
WRITTEN = re.compile(
    r"^(?: *(?:def|class) | +(?:self|\*), | +\w+: | +['\"]\w|\w+ = ).*", re.MULTILINE
)
"""Lines of a module that a signature may consist of."""


@dataclass(frozen=True)
class Constructor:
    """The keywords of a class or function."""

    annotations: Mapping[str, Any]  # Any where there is none that can be read
    defaults: Mapping[str, Any]  # of the keywords that can be left out
    free: bool  # it takes any other keyword too


@cache
def from_file(target: str) -> Constructor | None:
    """What a ``_target_`` takes; None if it is not in the file, or its module has been edited since
    the file was written.
    """
    saved = _saved()["targets"].get(target)
    if saved is None or any(_saved()["modules"][m] != digest(m) for m in saved["modules"]):
        return None
    texts = SimpleNamespace(__annotations__=saved["annotations"])
    annotations = typing.get_type_hints(texts, globalns=dict(NAMES), include_extras=True)
    return Constructor(annotations, saved["defaults"], saved["free"])


@cache
def _saved() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


@cache
def digest(module: str) -> str:
    """A digest of the definitions in a module of rltrain, such as ``algo/loss/td.py``."""
    path = PACKAGE / module
    lines: Iterable[str] = WRITTEN.findall(path.read_text("utf-8")) if path.is_file() else ()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
