"""Put a compiled function in the place of a method of one object."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


class Counterpart(partial[Any]):
    """A method of one object that a compiled function took the place of."""


def replace_method(part: Any, name: str, method: Callable[..., Any]) -> None:
    """Put ``method``, a function of ``part`` and the method's arguments, in the place of one method
    of this one object.
    """
    setattr(part, name, Counterpart(method, part))
