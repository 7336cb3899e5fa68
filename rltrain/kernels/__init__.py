"""Faster counterparts of networks and losses, compiled by numba or fused by hand.

Networks and losses are plain PyTorch and do not refer to them. ``hardware.kernels`` chooses once,
when a learner is built: each counterpart replaces one method of one object and is tested against
it. ``twins`` notices where the plain code, or an object, is no longer what it computes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal

from torch import nn

from rltrain.algo.optimizer import GradientStep
from rltrain.algo.policy import Policy
from rltrain.interfaces import Loss
from rltrain.kernels.twins import doubled
from rltrain.types import Model

Kernels = Literal["auto", "compiled", "torch"]


def chosen(kernels: Kernels) -> str:
    """``compiled`` or ``torch``; ``auto`` is compiled where numba is installed.

    Raises:
        ValueError: ``compiled`` without numba.
    """
    installed = find_spec("numba") is not None
    if kernels == "compiled" and not installed:
        raise ValueError("hardware.kernels=compiled needs numba, which is not installed here.")
    return "torch" if kernels == "torch" or not installed else "compiled"


def compile_agents(agents: nn.Module, required: bool = False) -> None:
    """Let the parts of a network that have a counterpart compute with it.

    Raises:
        ValueError: their plain code was changed, and compiled code is required.
    """
    from rltrain.algo.network.feed_forward import FeedForward
    from rltrain.algo.network.gru import GRUAgents
    from rltrain.algo.network.layers import Layers
    from rltrain.algo.network.packing import PackedGRU
    from rltrain.kernels.feed_forward import compile_feed_forward
    from rltrain.kernels.linear import fuse
    from rltrain.kernels.recurrent.acting import compile_recurrent_step
    from rltrain.kernels.recurrent.gru import compile_gru

    counterparts: dict[type, tuple[str, Callable[[Any], None]]] = {
        Layers: ("linear.py", fuse),
        PackedGRU: ("recurrent/gru.py", compile_gru),
        FeedForward: ("feed_forward.py", compile_feed_forward),
        GRUAgents: ("recurrent/acting.py", compile_recurrent_step),
    }
    for part in agents.modules():
        if type(part) in counterparts:  # a subclass may compute something else
            kernel, compile_part = counterparts[type(part)]
            if doubled((kernel,), list(part.modules()), required):
                compile_part(part)


def compile_loss(
    loss: Loss,
    model: Model,
    most_threads: int | None = None,
    target_cache: int | None = None,
    required: bool = False,
) -> Loss:
    """The counterpart of a loss for these agents and this mixer, if there is one.

    Args:
        loss, model: what it computes.
        most_threads: bound where the number of threads is measured; None: PyTorch's number.
        target_cache: bytes of the target network's values that are kept until its next update;
            None: none.
        required: whether plain code that was changed is refused.

    Raises:
        ValueError: no counterpart of this loss keeps them.
    """
    from rltrain.kernels.recurrent.learning import compile_sequence_loss
    from rltrain.kernels.td_step import compile_td_loss

    parts = [loss, *model.modules()]
    compiled = compile_td_loss(loss, model)
    if compiled is not loss and not doubled(("td_step.py", "feed_forward.py"), parts, required):
        compiled = loss
    elif compiled is loss:
        compiled = compile_sequence_loss(loss, model, most_threads, target_cache, required)
    if target_cache is not None:
        require_target_values(compiled)
    return compiled


def compile_gradient_step(step: GradientStep, required: bool = False) -> None:
    """Let a gradient step compute in compiled code, if its optimizer has a counterpart."""
    from rltrain.kernels.optimizer import gradient_step

    gradient_step.compile_gradient_step(step, required)


def compile_policy(policy: Policy, required: bool = False) -> None:
    """Let a policy act in compiled code, where its parts have counterparts."""
    from rltrain.kernels import acting

    acting.compile_policy(policy, required)


def require_target_values(loss: Loss) -> None:
    """ValueError unless a loss keeps values of the target network."""
    if not hasattr(loss, "target_values"):
        raise ValueError(
            "hardware.target_cache keeps the target network's values of compiled IQL, VDN and QMIX "
            "with GRU agents on the CPU, which this run is not. Type hardware.target_cache=null."
        )
