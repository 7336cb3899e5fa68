"""Whether objects compute as their classes say: nothing is hooked into them or replaced in them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sized
from functools import cache, partial
from multiprocessing import parent_process
from operator import attrgetter
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

from rltrain.interfaces import Model

log = logging.getLogger("rltrain")
HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
BACKWARD_HOOKS = attrgetter("_backward_hooks"), attrgetter("_post_accumulate_grad_hooks")
requires_grad = attrgetter("requires_grad")


class CompiledMethod(partial[Any]):
    """A compiled function in the place of a method of one object."""


def replace_method(part: object, name: str, method: Callable[..., object]) -> None:
    """Put ``method``, a function of ``part`` and the method's arguments, in the place of one method
    of this one object.
    """
    setattr(part, name, CompiledMethod(method, part))


class ModuleWatch:
    """Notices hooks, parametrizations and replaced methods of modules, also later ones; a look
    takes one or two microseconds.

    Args:
        learns: all parameters of the first module are trained; those that are frozen are noticed.
    """

    def __init__(self, *modules: nn.Module, learns: bool = False) -> None:
        self.modules, self.learns = modules, learns
        self._hooks: list[Any] | None = None

    def plain(self) -> bool:
        """Whether PyTorch would call nothing but the classes' own code; logs why not, once."""
        if self._hooks is None or sum(map(len, self._tables)) != self._size:
            self._look()
        hooked = any(self._hooks or ())
        hooked = hooked or any(any(map(hooks, self._parameters)) for hooks in BACKWARD_HOOKS)
        if hooked:
            computes_plainly(f"a hook of {self._name}")
        frozen = not all(map(requires_grad, self._trained))
        if frozen:
            computes_plainly(f"a parameter of {self._name} is not trained (requires_grad=False)")
        return not (hooked or frozen or self._replaced)

    def _look(self) -> None:
        parts = [part for module in self.modules for part in module.modules()]
        self._name = type(self.modules[0]).__name__
        self._hooks = [getattr(part, name) for part in parts for name in HOOKS]
        self._hooks += [getattr(torch_module, f"_global{name}") for name in HOOKS]
        self._parameters: list[Any] = [p for m in self.modules for p in m.parameters()]
        self._trained = [*self.modules[0].parameters()] if self.learns else []
        self._tables: list[Sized] = [
            table for part in parts for table in (vars(part), part._parameters, part._modules)
        ]
        self._size = sum(map(len, self._tables))
        self._replaced = [reason for part in parts for reason in replaced(part)]
        for reason in self._replaced:
            computes_plainly(reason)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleWatch:
        return ModuleWatch(*copy.deepcopy(self.modules, memo), learns=self.learns)


def watched(watches: dict[Model, ModuleWatch], online: Model, target: Model) -> ModuleWatch:
    """The watch over two networks, kept in ``watches`` by the first."""
    watch = watches.get(online)
    if watch is None or watch.modules[1] is not target:
        watch = watches[online] = ModuleWatch(online, target, learns=True)
    return watch


def replaced(part: nn.Module) -> list[str]:
    """The methods of a module that are this object's own, and its parametrized weights."""
    reasons = [
        f"{type(part).__name__}.{name} was replaced in an object"
        for name, value in vars(part).items()
        if callable(value) and hasattr(type(part), name) and type(value) is not CompiledMethod
    ]
    if "parametrizations" in part._modules:
        reasons.append(f"{type(part).__name__} has a parametrization")
    return reasons


def computes_plainly(reason: str, required: bool = False) -> None:
    """Log once that PyTorch computes something, and why.

    Raises:
        ValueError: compiled code is required.
    """
    if required:
        raise ValueError(
            f"hardware.kernels=compiled: {reason}, so that its compiled counterpart computes "
            "something else. Type hardware.kernels=auto, with which PyTorch computes it."
        )
    if parent_process() is None:  # workers of a run have the same reasons
        _log_once(reason)


@cache
def _log_once(reason: str) -> None:
    log.warning("%s: PyTorch computes it, as with hardware.kernels=torch.", reason)
