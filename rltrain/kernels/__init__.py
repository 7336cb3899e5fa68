"""Faster counterparts of networks and losses, compiled by numba or fused by hand.

Networks and losses are plain PyTorch and do not refer to them. ``hardware.kernels`` chooses once,
when a learner is built: each counterpart replaces one object, or one method of it, and is tested
against it. ``table`` has all of them; ``digests`` and ``module_watch`` notice where the plain code,
or an object, is no longer what they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from rltrain.algo.policy import Policy
from rltrain.interfaces import Loss, Model
from rltrain.kernels.module_watch import computes_plainly, form, replace_method
from rltrain.kernels.table import COUNTERPARTS
from rltrain.types import module_device

if TYPE_CHECKING:
    from rltrain.algo.learner import Learner

Kernels = Literal["auto", "compiled", "torch"]


def compile_part(part: object, choice: Kernels = "auto") -> None:
    """Replace a method of an object, such as ``GradientStep``, if it has a counterpart.

    Raises:
        ValueError: its plain code was changed, and compiled code is required.
    """
    method, compiled, places = _counterpart(choice, part)
    if compiled is not None:
        replace_method(part, method, compiled, places)


def compile_agents(agents: nn.Module, choice: Kernels = "auto") -> None:
    """Let the parts of a network that have a counterpart compute with it.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    for part in list(agents.modules()):
        compile_part(part, choice)


def compile_policy(policy: Policy, choice: Kernels = "auto") -> None:
    """Let a policy act in compiled code, where its parts have counterparts, or as CUDA graphs."""
    if choice != "torch" and module_device(policy.agents).type == "cuda":
        from rltrain.kernels.cuda_graph import GraphedValues

        replace_method(policy, "values", GraphedValues(policy, choice == "compiled"), ())
    else:
        compile_part(policy, choice)
    compile_part(policy.exploration, choice)


def compile_learner(learner: Learner, choice: Kernels = "auto") -> None:
    """Let a learner make its gradient steps in compiled code, or on a GPU as CUDA graphs."""
    compile_part(learner.gradient_step, choice)
    if choice != "torch" and learner.gradient_step.weights.is_cuda:
        from rltrain.kernels.cuda_graph import GraphedStep

        replace_method(learner, "step", GraphedStep(learner, choice == "compiled"), ())


def compile_loss(
    loss: Loss,
    model: Model,
    most_threads: int | None = None,
    target_cache: int | None = None,
    choice: Kernels = "auto",
) -> Loss:
    """The counterpart of a loss for these agents and this mixer; without one the loss itself.

    Args:
        loss, model: plain PyTorch.
        most_threads: bound where the number of threads is measured; None: PyTorch's number.
        target_cache: bytes of the target network's values that are kept until its next update;
            None: none.
        choice: ``hardware.kernels``.

    Raises:
        ValueError: no counterpart of this loss keeps them.
    """
    _, compiled, places = _counterpart(choice, loss, model, most_threads, target_cache)
    if compiled is not None and (reason := compiled.misfit(model)) is not None:
        computes_plainly(reason, choice == "compiled")
    elif compiled is not None:
        compiled.places, compiled.form = places, form(model)
        if compiled.program is not None:
            from rltrain.kernels.compilation import compile_ahead

            compile_ahead(compiled.program, resolve_name(f"rltrain.kernels.{compiled.kernel}"))
        loss = compiled
    if target_cache is not None and not hasattr(loss, "target_values"):
        raise ValueError(
            "hardware.target_cache keeps the target network's values of compiled IQL, VDN and QMIX "
            "with GRU agents on the CPU, which this run is not. Type hardware.target_cache=null."
        )
    return loss


def _counterpart(
    choice: Kernels, part: object, *options: object
) -> tuple[str, Any, Sequence[str | type]]:
    """The method of an object that has a counterpart, that, and the places of its plain code."""
    kind = f"{type(part).__module__}:{type(part).__qualname__}".removeprefix("rltrain.")
    for row in COUNTERPARTS.get(kind, ()) if choice != "torch" else ():
        if row.only and type(attrgetter(row.only[0])(part)).__name__ != row.only[1]:
            continue
        compiled = resolve_name(f"rltrain.kernels.{row.make}")
        compiled = compiled if row.always else compiled(part, *options)
        if compiled is not None:
            from rltrain.kernels.digests import doubled

            objects = [part, *row.others(part, *options)]
            places = doubled(row.twins, objects, choice == "compiled")
            return (row.method, compiled, places) if places is not None else ("", None, ())
    return "", None, ()
