"""Faster counterparts of networks and losses, compiled by numba or fused by hand.

Networks and losses are plain PyTorch and do not refer to them. ``hardware.kernels`` chooses once,
when a learner is built: each counterpart replaces one object, or one method of it, and is tested
against it. ``table`` has all of them; ``digests`` and ``module_watch`` notice where the plain code,
or an object, is no longer what they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from rltrain.algo.optimizer import GradientStep
from rltrain.algo.policy import Policy
from rltrain.interfaces import Loss, Model
from rltrain.types import module_device

if TYPE_CHECKING:
    from rltrain.algo.learner import Learner
    from rltrain.kernels.table import Counterpart

Kernels = Literal["auto", "compiled", "torch"]


def compile_agents(agents: nn.Module, choice: Kernels = "auto") -> None:
    """Let the parts of a network that have a counterpart compute with it.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    for part in list(agents.modules()):
        _compile(part, list(part.modules()), choice)


def compile_policy(policy: Policy, choice: Kernels = "auto") -> None:
    """Let a policy act in compiled code, where its parts have counterparts, or as CUDA graphs."""
    if choice != "torch" and module_device(policy.agents).type == "cuda":
        from rltrain.kernels.cuda_graph import GraphedValues
        from rltrain.kernels.module_watch import replace_method

        replace_method(policy, "values", GraphedValues(policy, choice == "compiled"), ())
    else:
        _compile(policy, [policy, *policy.agents.modules()], choice)
    _compile(policy.exploration, [policy.exploration], choice)


def compile_gradient_step(step: GradientStep, choice: Kernels = "auto") -> None:
    """Let a gradient step compute in compiled code, if its optimizer has a counterpart."""
    _compile(step, [step], choice)


def capture_steps(learner: Learner, choice: Kernels = "auto") -> None:
    """Let a learner on a GPU make its gradient steps as CUDA graphs."""
    if choice != "torch" and learner.gradient_step.weights.is_cuda:
        from rltrain.kernels.cuda_graph import GraphedStep
        from rltrain.kernels.module_watch import replace_method

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
    from rltrain.kernels.module_watch import computes_plainly

    compiled = loss
    row, places = _counterpart(loss, [loss, *model.modules()], choice, model)
    if row is not None and (reason := row.misfit(model)) is not None:
        computes_plainly(reason, choice == "compiled")
    elif row is not None:
        compiled = row.make(loss, most_threads, target_cache)
        compiled.places = places
    if target_cache is not None:
        require_target_values(compiled)
    return compiled


def compile_learning(trainer: Any, choice: Kernels = "auto") -> None:
    """Let a trainer make its gradient steps without tensors, if its learner and buffer are
    compiled and plain.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    learner, buffer = trainer.learner, trainer.buffer
    if type(learner.loss).__name__ != "CompiledTDLoss":
        return  # without importing what is not needed
    from rltrain.kernels.digests import doubled
    from rltrain.kernels.learning import CompiledLearning, bypassed
    from rltrain.kernels.module_watch import replace_method
    from rltrain.kernels.table import LEARNING

    if not CompiledLearning.fits(learner, buffer):
        return
    objects = [trainer, *bypassed(trainer), *learner.online.modules()]
    if (places := doubled(LEARNING, objects, choice == "compiled")) is not None:
        replace_method(trainer, "learn", CompiledLearning(trainer), places)


def compile_collecting(rollout: Any, choice: Kernels = "auto") -> None:
    """Let a rollout make its time steps without tensors, if environment and policy are compiled and
    plain.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    kinds = type(rollout).__name__, type(rollout.env).__name__
    if choice == "torch" or kinds != ("Rollout", "ClassicControl"):
        return  # without importing what is not needed
    from rltrain.kernels.collecting import CompiledCollecting
    from rltrain.kernels.digests import doubled
    from rltrain.kernels.module_watch import replace_method
    from rltrain.kernels.table import COLLECTING

    objects = [rollout, rollout.env, rollout.policy, rollout.policy.exploration]
    if not CompiledCollecting.fits(rollout):
        return
    if (places := doubled(COLLECTING, objects, choice == "compiled")) is not None:
        replace_method(rollout, "advance", CompiledCollecting(rollout), places)


def leave_replaced(choice: Kernels = "auto") -> None:
    """Let PyTorch compute plain code that was replaced in memory since it was compiled.

    Raises:
        ValueError: some was, and compiled code is required.
    """
    from rltrain.kernels.module_watch import COMPILED

    if COMPILED:  # else without importing what is not needed
        from rltrain.kernels import digests

        digests.leave_replaced(choice == "compiled")


def _compile(part: object, objects: list[Any], choice: Kernels) -> None:
    """Replace a method of an object, whose parts are ``objects``, if it has a counterpart."""
    from rltrain.kernels.module_watch import replace_method

    row, places = _counterpart(part, objects, choice)
    if row is not None:
        replace_method(part, row.method, row.make(part), places)


def _counterpart(
    part: object, objects: list[Any], choice: Kernels, *model: Model
) -> tuple[Counterpart | None, Sequence[str | type]]:
    """The row of an object in the table, and the places of its plain code."""
    if choice == "torch":
        return None, ()
    from rltrain.kernels.digests import doubled
    from rltrain.kernels.table import COUNTERPARTS

    for row in COUNTERPARTS:
        if type(part) in row.of and row.applies(part, *model):
            places = doubled(row.doubles, objects, choice == "compiled")
            return (None, ()) if places is None else (row, places)
    return None, ()


def require_target_values(loss: Loss) -> None:
    """ValueError unless a loss keeps values of the target network."""
    if not hasattr(loss, "target_values"):
        raise ValueError(
            "hardware.target_cache keeps the target network's values of compiled IQL, VDN and QMIX "
            "with GRU agents on the CPU, which this run is not. Type hardware.target_cache=null."
        )
