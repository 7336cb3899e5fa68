"""Whether objects compute as their classes say: nothing is hooked into them or replaced in them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain, starmap
from multiprocessing import parent_process
from operator import attrgetter, is_
from typing import Any
from weakref import WeakSet

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

log = logging.getLogger("rltrain")
HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
training = attrgetter("requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks")
PLAIN_TRAINING = True, None, None
version = attrgetter("_version")


class CompiledMethod(partial[Any]):
    """A compiled function in place of a method of one object."""

    name: str  # of the method
    part: object  # whose method
    made_for: type  # its class
    places: Sequence[str | type]  # the plain code that it computes

    def __new__(cls, *args: Any) -> CompiledMethod:
        method = super().__new__(cls, *args)
        COMPILED.add(method)
        return method

    def leave(self) -> None:
        """Let the object compute with its class's own method again."""
        if vars(self.part).get(self.name) is self:
            delattr(self.part, self.name)


COMPILED: WeakSet[Any] = WeakSet()
"""Everything that computes instead of plain code, of all runs of this process."""


def replace_method(
    part: object, name: str, method: Callable[..., object], places: Sequence[str | type]
) -> None:
    """Put ``method``, a function of ``part`` and the method's arguments, in place of one method
    of this one object, whose plain code is at ``places``.
    """
    compiled = CompiledMethod(method, part)
    compiled.name, compiled.places = name, places
    compiled.part, compiled.made_for = part, type(part)
    setattr(part, name, compiled)


class ModuleWatch:
    """Notices hooks, parametrizations and replaced methods, parts, parameters and constants of
    modules, also later ones; a look takes a few microseconds.

    Args:
        modules: all of one form.
        learns: all parameters of the first module are trained; those that are frozen are noticed.
        expected: the ``form`` that compiled code computes; None: that of the modules now.
    """

    def __init__(self, *modules: nn.Module, learns: bool = False, expected: object = None) -> None:
        self.modules, self.learns = modules, learns
        self._made = contents(modules)
        self._forms = {*map(form, modules)} if expected is None else {expected}
        self._hooks: list[object] | None = None

    def plain(self) -> bool:
        """Whether PyTorch would call nothing but the classes' own code; logs why not, once."""
        if self._hooks is None or not (
            len(now := self._state()) == len(self._seen)
            and all(map(is_, now, self._seen))
            and sum(map(len, self._attributes)) == self._size
            and [*map(version, self._constants)] == self._versions
        ):  # parts, parameters and methods are not those of the last look
            self._look()
        hooked, frozen = any(self._hooks or ()), False
        if (trainings := [*map(training, self._trained)]) != self._trainings:
            hooked = hooked or any(any(hooks) for _, *hooks in trainings)
            frozen = not all(requires_grad for requires_grad, *_ in trainings)
        if hooked:
            computes_plainly(f"a hook of {self._name}")
        if frozen:
            computes_plainly(f"a parameter of {self._name} is not trained (requires_grad=False)")
        return not (hooked or frozen or self._replaced)

    def _state(self) -> list[object]:
        """Parts and parameters, the classes of parts, and methods of their own."""
        held = chain.from_iterable(map(dict.values, self._tables))
        return [*held, *map(type, self._parts), *starmap(dict.get, self._methods)]

    def _look(self) -> None:
        parts = self._parts = [part for module in self.modules for part in module.modules()]
        self._name = type(self.modules[0]).__name__
        self._hooks = [getattr(part, name) for part in parts for name in HOOKS]
        self._hooks += [getattr(torch_module, f"_global{name}") for name in HOOKS]
        self._trained = [*self.modules[0].parameters()] if self.learns else []
        self._trainings = [PLAIN_TRAINING] * len(self._trained)
        self._tables: list[dict[str, Any]] = []
        self._tables += [table for part in parts for table in (part._parameters, part._modules)]
        self._tables += [part._buffers for part in parts if part._buffers]
        held = (x for part in self.modules for x in constants(part))
        self._constants = [x for x in held if not x.is_inference()]  # which have no version
        self._versions = [*map(version, self._constants)]
        self._attributes = [*map(vars, parts)]
        self._size = sum(map(len, self._attributes))
        self._methods = [(vars(part), name) for part in parts for name in own_methods(part)]
        self._seen = self._state()
        self._replaced = [reason for part in parts for reason in replaced(part)]
        made, now = self._made, contents(self.modules)
        same = len(made) == len(now) and all(map(is_, made, now))
        if not self._replaced and not (same and len({*map(form, self.modules)} | self._forms) == 1):
            self._replaced = [f"a part of {self._name} was replaced"]
        for reason in self._replaced:
            computes_plainly(reason)

    def __deepcopy__(self, memo: dict[int, object]) -> ModuleWatch:
        other = ModuleWatch(learns=self.learns)  # of modules that are incomplete as yet
        other.modules, other._made = copy.deepcopy((self.modules, self._made), memo)
        other._forms = self._forms
        return other


def contents(modules: Sequence[nn.Module]) -> list[object]:
    """The parts and parameters of modules, and their classes."""
    own = [x for module in modules for x in (*module.modules(), *module.parameters())]
    return [*own, *map(type, own)]


def form(module: nn.Module) -> tuple[object, ...]:
    """The classes of a module's parts, the shapes of its parameters, and its constants."""
    shapes = (tuple(p.shape) for p in module.parameters())
    return *map(type, module.modules()), *shapes, *(str(x.tolist()) for x in constants(module))


def constants(module: nn.Module) -> list[Tensor]:
    """The buffers of this package's parts on the CPU; not running statistics, which are saved."""
    parts = [x for x in module.modules() if type(x).__module__.startswith("rltrain.")]
    parts = [x for x in parts if x._buffers.keys() <= x._non_persistent_buffers_set]
    return [x for part in parts for x in part._buffers.values() if x is not None and x.is_cpu]


def own_methods(part: object) -> list[str]:
    """The methods of an object that are not those of its class."""
    own, kind = vars(part), type(part)
    return [name for name, value in own.items() if callable(value) and hasattr(kind, name)]


def replaced(part: object) -> list[str]:
    """Why an object computes something other than its class says: methods of its own that are not
    compiled ones, and parametrized weights.
    """
    kind, own = type(part).__name__, vars(part)
    reasons = [
        f"{kind}.{name} was replaced in an object"
        for name in own_methods(part)
        if type(own[name]) is not CompiledMethod
    ]
    if isinstance(part, nn.Module) and "parametrizations" in part._modules:
        reasons.append(f"{kind} has a parametrization")
    return reasons


def unreplaced(parts: Sequence[object], kinds: Sequence[type]) -> bool:
    """Whether objects compute as these classes, theirs, say; logs why not, once."""
    reasons = []
    for part, kind in zip(parts, kinds, strict=True):
        other = [] if type(part) is kind else [f"the class of {kind.__name__} was replaced"]
        reasons += other or replaced(part)
    for reason in reasons:
        computes_plainly(reason)
    return not reasons


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


def forget_reasons() -> None:
    """A run begins: what an earlier one logged is logged again."""
    _log_once.cache_clear()


@cache
def _log_once(reason: str) -> None:
    log.warning("%s: PyTorch computes it, as with hardware.kernels=torch.", reason)
