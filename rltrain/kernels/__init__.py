"""Faster counterparts of networks and losses, compiled by numba or fused by hand.

Networks and losses are plain PyTorch and do not refer to them. ``hardware.kernels`` chooses once,
when a learner is built: each counterpart replaces one object, or one method of it, and is tested
against it. ``table`` has all of them; ``digests`` and ``module_watch`` notice where the plain code,
or an object, is no longer what they compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from rltrain.algo.policy import Policy
from rltrain.interfaces import Loss, Model
from rltrain.kernels.module_watch import COMPILED, computes_plainly, form, replace_method
from rltrain.kernels.table import COUNTERPARTS
from rltrain.types import module_device

if TYPE_CHECKING:
    from rltrain.algo.learner import Learner

Kernels = Literal["auto", "compiled", "torch"]


def compile_part(part: object, choice: Kernels = "auto", calls: Iterable[object] = ()) -> None:
    """Replace a method of an object, such as ``GradientStep``, if it has a counterpart.

    Args:
        calls: other objects whose methods that method calls.

    Raises:
        ValueError: its plain code was changed, and compiled code is required.
    """
    method, compiled, places = _counterpart(part, calls, choice)
    if compiled is not None:
        replace_method(part, method, compiled, places)


def compile_agents(agents: nn.Module, choice: Kernels = "auto") -> None:
    """Let the parts of a network that have a counterpart compute with it.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    for part in list(agents.modules()):
        compile_part(part, choice, part.modules())


def compile_policy(policy: Policy, choice: Kernels = "auto") -> None:
    """Let a policy act in compiled code, where its parts have counterparts, or as CUDA graphs."""
    if choice != "torch" and module_device(policy.agents).type == "cuda":
        from rltrain.kernels.cuda_graph import GraphedValues

        replace_method(policy, "values", GraphedValues(policy, choice == "compiled"), ())
    else:
        compile_part(policy, choice, policy.agents.modules())
    compile_part(policy.exploration, choice)


def capture_steps(learner: Learner, choice: Kernels = "auto") -> None:
    """Let a learner on a GPU make its gradient steps as CUDA graphs."""
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
    options, settings = (model, most_threads, target_cache), getattr(loss, "__dict__", {}).values()
    objects = [*model.modules(), *filter(is_dataclass, settings)]
    _, compiled, places = _counterpart(loss, objects, choice, *options)
    if compiled is not None and (reason := compiled.misfit(model)) is not None:
        computes_plainly(reason, choice == "compiled")
    elif compiled is not None:
        compiled.places, compiled.form = places, form(model)
        compiled.compile_ahead()
        loss = compiled
    if target_cache is not None and not hasattr(loss, "target_values"):
        raise ValueError(
            "hardware.target_cache keeps the target network's values of compiled IQL, VDN and QMIX "
            "with GRU agents on the CPU, which this run is not. Type hardware.target_cache=null."
        )
    return loss


def compile_learning(trainer: Any, choice: Kernels = "auto") -> None:
    """Let a trainer make its gradient steps without tensors, if its learner and buffer are
    compiled and plain.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    if type(trainer.learner.loss).__name__ == "CompiledTDLoss":  # else without importing it
        from rltrain.kernels.learning import bypassed

        compile_part(trainer, choice, bypassed(trainer))


def compile_collecting(rollout: Any, choice: Kernels = "auto") -> None:
    """Let a rollout make its time steps without tensors, if environment and policy are compiled and
    plain.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    if type(rollout.env).__name__ == "ClassicControl":  # else without importing what is not needed
        policy = rollout.policy
        compile_part(rollout, choice, (rollout.env, policy, policy.exploration))


def leave_replaced(choice: Kernels = "auto") -> None:
    """Let PyTorch compute plain code that was replaced in memory since it was compiled.

    Raises:
        ValueError: some was, and compiled code is required.
    """
    if COMPILED:  # else without importing what is not needed
        from rltrain.kernels import digests

        digests.leave_replaced(choice == "compiled")


def _counterpart(
    part: object, objects: Iterable[object], choice: Kernels, *options: object
) -> tuple[str, Any, Sequence[str | type]]:
    """The method of an object that has a counterpart, that, and the places of its plain code."""
    if choice != "torch":
        from rltrain.kernels.digests import doubled

        kind = f"{type(part).__module__}:{type(part).__qualname__}".removeprefix("rltrain.")
        for row in COUNTERPARTS.get(kind, ()):
            compiled = resolve_name(f"rltrain.kernels.{row.make}")
            compiled = compiled if row.always else compiled(part, *options)
            if compiled is not None:
                places = doubled(row.twins, [part, *objects], choice == "compiled")
                return (row.method, compiled, places) if places is not None else ("", None, ())
    return "", None, ()
