"""Whether objects compute as their classes say: nothing is hooked into them or replaced in them."""

from __future__ import annotations

import copy
from collections.abc import Sized
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

from rltrain.kernels.replace import Counterpart
from rltrain.kernels.twins import computes_plainly
from rltrain.types import Model

HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


class Watch:
    """Notices hooks, parametrizations and replaced methods of modules, also later ones; a look
    takes one or two microseconds.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self.modules = modules
        self._hooks: list[Any] | None = None

    def plain(self) -> bool:
        """Whether PyTorch would call nothing but the classes' own code; logs why not, once."""
        if self._hooks is None or sum(map(len, self._tables)) != self._size:
            self._look()
        hooked = any(self._hooks or ()) or any(p._backward_hooks for p in self._parameters)
        if hooked:
            computes_plainly(f"a hook of {self._name}")
        return not (hooked or self._replaced)

    def _look(self) -> None:
        parts = [part for module in self.modules for part in module.modules()]
        self._name = type(self.modules[0]).__name__
        self._hooks = [getattr(part, name) for part in parts for name in HOOKS]
        self._hooks += [getattr(torch_module, f"_global{name}") for name in HOOKS]
        self._parameters: list[Any] = [p for m in self.modules for p in m.parameters()]
        self._tables: list[Sized] = [
            table for part in parts for table in (vars(part), part._parameters, part._modules)
        ]
        self._size = sum(map(len, self._tables))
        self._replaced = [reason for part in parts for reason in replaced(part)]
        for reason in self._replaced:
            computes_plainly(reason)

    def __deepcopy__(self, memo: dict[int, Any]) -> Watch:
        return Watch(*copy.deepcopy(self.modules, memo))


def watched(watches: dict[Model, Watch], online: Model, target: Model) -> Watch:
    """The watch over two networks, kept in ``watches`` by the first."""
    found = watches.get(online)
    if found is None or found.modules[1] is not target:
        found = watches[online] = Watch(online, target)
    return found


def replaced(part: nn.Module) -> list[str]:
    """The methods of a module that are this object's own, and its parametrized weights."""
    found = [
        f"{type(part).__name__}.{name} was replaced in an object"
        for name, value in vars(part).items()
        if callable(value) and hasattr(type(part), name) and type(value) is not Counterpart
    ]
    if "parametrizations" in part._modules:
        found.append(f"{type(part).__name__} has a parametrization")
    return found
