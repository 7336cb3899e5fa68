"""Optimisers: thin functions over torch.optim, annotated with the ranges of their values."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn
from torch.optim import Optimizer

from rltrain.common.number_types import Fraction, Positive, Probability


def rmsprop(
    params: list[nn.Parameter], *, lr: Positive, alpha: Fraction, eps: Positive, **options: Any
) -> Optimizer:
    """RMSprop without centring (Tieleman & Hinton 2012); ``options`` go to ``torch.optim.RMSprop``.

    Raises:
        ValueError: an option that ``torch.optim.RMSprop`` does not have, or a value it refuses.
    """
    return _make(torch.optim.RMSprop, params, {"lr": lr, "alpha": alpha, "eps": eps, **options})


def adam(
    params: list[nn.Parameter],
    *,
    lr: Positive,
    betas: Annotated[list[Probability], Field(min_length=2, max_length=2)],
    eps: Positive,
    **options: Any,
) -> Optimizer:
    """Adam (Kingma & Ba 2015); ``options`` go to ``torch.optim.Adam``.

    Raises:
        ValueError: an option that ``torch.optim.Adam`` does not have, or a value it refuses.
    """
    return _make(torch.optim.Adam, params, {"lr": lr, "betas": tuple(betas), "eps": eps, **options})


def radam(
    params: list[nn.Parameter],
    *,
    lr: Positive,
    betas: Annotated[list[Probability], Field(min_length=2, max_length=2)],
    eps: Positive,
    **options: Any,
) -> Optimizer:
    """Rectified Adam (Liu et al. 2020); ``options`` go to ``torch.optim.RAdam``.

    Raises:
        ValueError: an option that ``torch.optim.RAdam`` does not have, or a value it refuses.
    """
    return _make(
        torch.optim.RAdam, params, {"lr": lr, "betas": tuple(betas), "eps": eps, **options}
    )


def _make(kind: type[Optimizer], params: list[nn.Parameter], options: dict[str, Any]) -> Optimizer:
    known = [name for name in inspect.signature(kind).parameters if name != "params"]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ValueError(
            f"torch.optim.{kind.__name__} has no option {', '.join(unknown)}: "
            f"expected one of {', '.join(known)}."
        )
    if "fused" in known and not options.get("foreach"):
        options.setdefault("fused", True)  # one operation instead of a dozen
    # on a GPU the step counter stays on the device: a step is undone without synchronisation
    options.setdefault("capturable", params[0].is_cuda)
    eager: type[Optimizer] = type(kind.__name__, (_Eager, kind), {})
    return eager(params, **options)


class _Eager(Optimizer):
    """Mixin for an optimizer whose calls skip the wrappers of torch.compile.

    Those import ``torch._dynamo`` at the first call, 1 to 2 s, although nothing is compiled here.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        inspect.unwrap(Optimizer.add_param_group)(self, param_group)

    def step(self, closure: Any = None) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return inspect.unwrap(super().step.__func__)(self, closure)  # type: ignore[attr-defined]
