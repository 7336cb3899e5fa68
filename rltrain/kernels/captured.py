"""Whether what was captured in a CUDA graph is still what would run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress
from operator import is_not
from types import ModuleType
from typing import Any

from torch import nn

PLAIN_VALUES = int, float, str, bytes, tuple, type(None)


class Parts:
    """What is captured: the attributes of objects, and the functions of their classes and modules.

    Args:
        objects: their modules and classes, and those of ``rltrain.algo``, are looked at too.
        tables: other attributes by name.
    """

    def __init__(self, objects: Sequence[object], *tables: Mapping[Any, object]) -> None:
        self.objects = [x for x in objects if hasattr(x, "__dict__")]
        classes = {kind for x in self.objects for kind in type(x).__mro__ if written_here(kind)}
        modules = {sys.modules[kind.__module__] for kind in classes}
        modules |= {m for n, m in sys.modules.items() if n.startswith("rltrain.algo.")}
        parts = [x for x in self.objects if isinstance(x, nn.Module)]
        inner = [t for x in parts for t in (x._parameters, x._buffers, x._modules)]
        self._tables = [*map(vars, [*self.objects, *classes, *modules]), *inner, *tables]
        self._values = [*self._now()]

    def _now(self) -> Iterator[object]:
        return chain.from_iterable(table.values() for table in self._tables)

    def same(self) -> bool:
        """Whether nothing was replaced since this object was made; takes some 20 microseconds."""
        now = [*self._now()]
        if len(now) != len(self._values):
            return False
        others = list(map(is_not, now, self._values))
        if not any(others):
            return True
        pairs = zip(compress(now, others), compress(self._values, others), strict=True)
        return all(type(a) in PLAIN_VALUES and type(a) is type(b) and a == b for a, b in pairs)


def reachable(thing: object) -> list[object]:
    """An object and those that it holds, and so on; none of Python's or PyTorch's own."""
    found = [thing]
    for one in found:
        held = vars(one).values() if hasattr(one, "__dict__") else ()
        found += [x for x in held if written_here(type(x)) and not any(x is y for y in found)]
    return found


def written_here(kind: type) -> bool:
    """Whether a class is neither Python's nor PyTorch's."""
    module = sys.modules.get(kind.__module__)
    own = kind.__module__.partition(".")[0] not in {"torch", "builtins", "typing", "abc"}
    return own and isinstance(module, ModuleType)
