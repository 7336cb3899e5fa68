"""Whether what was captured in a CUDA graph is still what would run."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, compress, starmap
from operator import is_not
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PLAIN = int, float, str, bytes, bool, type(None)
OF_EVERY_MODULE = vars(nn.Module()).keys() - {"training"}
"""Attributes of modules that ``ModuleWatch`` looks at, or whose contents ``Parts`` does."""
GENERATOR: dict[str, object] = {"state": None}
"""The state that graphs draw their random numbers from, where it was replaced."""
FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "rltrain.types"}


class Parts:
    """Parts that are captured: the attributes of objects, the contents of containers among them,
    and the functions of their classes and modules, with what these read of their modules.

    Args:
        objects: and what they hold, and so on.
        tables: other attributes by name.
    """

    def __init__(self, objects: Iterable[object], *tables: Mapping[Any, object]) -> None:
        held = reachable(objects)
        classes = {kind for x in held for kind in type(x).__mro__ if own(kind.__module__)}
        named = names_read(classes, [x for x in held if isinstance(x, FunctionType)])
        self._kept = held  # so that no other object gets the identity of one
        self._looks = [look for x in held for look in looks(x) or ()]
        self._looks += [vars(kind).values for kind in classes]
        self._looks += [table.values for table in (*tables, GENERATOR)]
        self._read = [(vars(sys.modules[name]).get, names) for name, names in named.items()]
        self._values = self._now()

    def _now(self) -> list[object]:
        looked = chain.from_iterable(look() for look in self._looks)
        return [*looked, *chain.from_iterable(starmap(map, self._read))]

    def same(self) -> bool:
        """Whether nothing was replaced since this object was made."""
        now = self._now()
        if len(now) != len(self._values):
            return False
        others = [*map(is_not, now, self._values)]
        pairs = zip(compress(now, others), compress(self._values, others), strict=True)
        return all(plain(a) and type(a) is type(b) and a == b for a, b in pairs)


def cpu_random() -> tuple[object, ...]:
    """The states of generators of the CPU, which a graph does not draw from again."""
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())


def plain(value: object) -> bool:
    """Whether a value is a number or text, or a tuple of such."""
    return type(value) in PLAIN or (type(value) is tuple and all(map(plain, value)))


def own(module: str | None) -> bool:
    """Whether a module is neither Python's, PyTorch's nor NumPy's."""
    name = module or "builtins"
    return name in sys.modules and not {name, name.partition(".")[0]} & FOREIGN


def reachable(objects: Iterable[object]) -> list[object]:
    """Objects and what they hold, and so on, as far as ``looks`` goes."""
    found: dict[int, object] = {}
    waiting = [*objects]
    while waiting:
        x = waiting.pop()
        if id(x) not in found and (own_looks := looks(x)) is not None:
            found[id(x)] = x
            waiting += chain.from_iterable(look() for look in own_looks)
    return [*found.values()]


def looks(x: Any) -> list[Callable[[], Iterable[object]]] | None:
    """Functions that list what a container, a function, a module, or an object of a class that is
    neither Python's nor PyTorch's holds; None for anything else.
    """
    if isinstance(x, (Tensor, type, ModuleType)) or plain(x):
        return None
    if isinstance(x, (Mapping, list, tuple, set)):
        return [x.values if isinstance(x, Mapping) else x.__iter__]
    if isinstance(x, partial):
        return [lambda: (x.func, *x.args, *x.keywords.values())]
    if isinstance(x, MethodType):
        return [lambda: (x.__self__, x.__func__)]
    if isinstance(x, FunctionType):
        return []
    if isinstance(x, nn.Module):
        tables = x._parameters, x._buffers, x._modules
        return [
            lambda: (value for name, value in vars(x).items() if name not in OF_EVERY_MODULE),
            *(table.values for table in tables),
        ]
    return [vars(x).values] if hasattr(x, "__dict__") and own(type(x).__module__) else None


def names_read(
    classes: Iterable[type], functions: Iterable[FunctionType]
) -> dict[str, Sequence[str]]:
    """The names that functions read of their modules, by module; those of functions that are read
    are among them.
    """
    members = (x for kind in classes for x in vars(kind).values())
    waiting: list[object] = [*members, *functions]
    found: dict[str, dict[str, None]] = {}
    seen: set[int] = set()
    while waiting:
        x = waiting.pop()
        for attribute in ("fget", "func", "__func__", "__wrapped__"):
            x = getattr(x, attribute, x)
        if not isinstance(x, FunctionType) or id(x) in seen or not own(x.__module__):
            continue
        seen.add(id(x))
        table = vars(sys.modules[x.__module__])
        for name in global_names(x.__code__):
            if name in table:
                found.setdefault(x.__module__, {})[name] = None
                waiting.append(table[name])
    return {module: [*names] for module, names in found.items()}


def global_names(code: CodeType) -> Iterator[str]:
    """The global names of a function and of those defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)
