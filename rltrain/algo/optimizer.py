"""Optimizers of torch.optim with annotated ranges, and the gradient step on all parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rltrain.algo.cpu_math import flushed_denormals, one_thread
from rltrain.algo.flat_parameters import FlatParameters
from rltrain.common.number_types import Decay, Fraction, Positive
from rltrain.common.schedule import piecewise
from rltrain.types import LossResult, Number

FEW_WEIGHTS = 1_000_000
ZERO_AT_FIRST = torch.optim.Adam, torch.optim.AdamW, torch.optim.RAdam, torch.optim.RMSprop
"""Optimizers whose state starts at zero; others create theirs in the first step."""
NUMBERS = bool, int, float, np.number, tuple, list, Tensor
NOT_NEGATIVE = "step", "square_avg", "exp_avg_sq", "max_exp_avg_sq", "acc_delta", "exp_inf", "sum"
"""States of optimizers: counts, and means of squares."""
OPTION = "option."
"""Prefix of changed options in a saved state."""
Betas = tuple[Decay, Decay]
"""Decays of the first and of the second moment."""


def rmsprop(
    params: list[nn.Parameter], *, lr: Positive, alpha: Fraction, eps: Positive, **options: Any
) -> Optimizer:
    """RMSprop, not centered (Tieleman & Hinton 2012); ``options`` go to ``torch.optim.RMSprop``.

    Raises:
        ValueError: an option that ``torch.optim.RMSprop`` does not have, or a value it refuses.
    """
    return _make(torch.optim.RMSprop, params, {"lr": lr, "alpha": alpha, "eps": eps, **options})


def adam(
    params: list[nn.Parameter], *, lr: Positive, betas: Betas, eps: Positive, **options: Any
) -> Optimizer:
    """Adam (Kingma & Ba 2015); ``options`` go to ``torch.optim.Adam``.

    Raises:
        ValueError: an option that ``torch.optim.Adam`` does not have, or a value it refuses.
    """
    return _make(torch.optim.Adam, params, {"lr": lr, "betas": betas, "eps": eps, **options})


def radam(
    params: list[nn.Parameter], *, lr: Positive, betas: Betas, eps: Positive, **options: Any
) -> Optimizer:
    """Rectified Adam (Liu et al. 2020); ``options`` go to ``torch.optim.RAdam``.

    Raises:
        ValueError: an option that ``torch.optim.RAdam`` does not have, or a value it refuses.
    """
    return _make(torch.optim.RAdam, params, {"lr": lr, "betas": betas, "eps": eps, **options})


# twin: kernels/gradient_step.py
def _make(kind: type[Optimizer], params: list[nn.Parameter], options: dict[str, Any]) -> Optimizer:
    parameters = inspect.signature(kind).parameters
    known = [name for name in parameters if name != "params"]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ValueError(
            f"torch.optim.{kind.__name__} has no option {', '.join(unknown)}: "
            f"expected one of {', '.join(known)}."
        )
    for name, value in options.items():
        default, is_flag = parameters[name].default, isinstance(value, bool)
        if default is None or isinstance(default, bool):
            expected, fits = "true or false", is_flag or value is default
        else:
            is_number = isinstance(value, int | float) and not is_flag
            expected, fits = "a number", is_number or isinstance(default, tuple)
        if not fits:
            raise ValueError(f"algo.optimizer.{name}={value}: expected {expected}.")
    if "fused" in known and not options.get("foreach"):
        options.setdefault("fused", True)  # one operation instead of a dozen
    # on a GPU the step counter stays on the device: a step is undone without synchronization
    options.setdefault("capturable", params[0].is_cuda)
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    eager: type[Optimizer] = type(kind.__name__, (_Eager, kind), {})
    return eager(params, **options)


# twin: kernels/gradient_step.py
class _Eager(Optimizer):
    """Mixin for optimizers that skips the wrappers of torch.compile.

    These import ``torch._dynamo`` at the first call, 1 to 2 s, although nothing is compiled here.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        inspect.unwrap(Optimizer.add_param_group)(self, param_group)

    def step(self, closure: object = None) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return inspect.unwrap(super().step.__func__)(self, closure)  # type: ignore[attr-defined]


# twin: kernels/gradient_step.py
class GradientStep:
    """Optimizer steps on all parameters of a model, as one flat tensor: clipping is one norm. If
    the loss, gradient or new weights are not finite, the step is undone on the device, without
    reading its value: weights, moments and counters do not change.

    Args:
        model: its parameters become views into one tensor, their gradients into another.
        optimizer: function of a list of parameters that returns an optimizer.
        max_grad_norm: maximum global gradient norm, or None.
        lr_factors: [env step, factor] points of the learning rate, linear in between; None for a
            constant rate.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Callable[[list[nn.Parameter]], Optimizer],
        max_grad_norm: float | None,
        lr_factors: list[list[float]] | None,
    ) -> None:
        self.flat = FlatParameters(model)
        self.optimizer = optimizer([self.flat.values])
        closure = inspect.signature(self.optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ValueError(
                f"algo.optimizer: {type(self.optimizer).__name__} computes the loss several times "
                "a step (step(closure)); here it is computed once. Type algo/optimizer=adam."
            )
        self.max_grad_norm = max_grad_norm
        if lr_factors is not None:
            pairs = bool(lr_factors) and all(len(point) == 2 for point in lr_factors)
            if not pairs or any(a[0] >= b[0] for a, b in pairwise(lr_factors)):
                raise ValueError(
                    "algo.lr_factors: expected [env step, factor] pairs in order, got "
                    f"{lr_factors}. Type for example algo.lr_factors='[[0,1],[100000,0.1]]'."
                )
        self.lr_factors = lr_factors
        self._configured = {**self.optimizer.param_groups[0], "params": None}
        self.initial_lr = 0.0 if lr_factors is None else self._configured.pop("lr")
        self._begun: tuple[Optimizer, int] | None = None  # and its number of moments
        self._begin()
        self.sum_over_ranks: Callable[[Tensor], None] | None = None  # in place; None = one process

    @property
    def weights(self) -> Tensor:
        """All parameters."""
        return self.flat.values.data

    @property
    def moments(self) -> dict[str, Tensor]:
        """The optimizer's state tensors, which a callback may replace."""
        own = self.optimizer.state.get(self.flat.values, {})
        return {name: x for name, x in own.items() if isinstance(x, Tensor)}

    @property
    def begun(self) -> bool:
        """Whether the optimizer has created its state."""
        optimizer, n_moments = self._begun or (None, 0)
        return optimizer is self.optimizer and len(self.moments) == n_moments

    @property
    def begins_at_zero(self) -> bool:
        """Whether the optimizer's state starts at zero."""
        return self._kind in ZERO_AT_FIRST

    @property
    def steps_finite(self) -> bool:
        """Whether finite gradients always give finite weights: ``eps=0`` divides zero by zero, the
        variance of centered RMSprop may round below zero, and other optimizers are unknown.
        """
        options = self.optimizer.param_groups[0]
        known = self._kind in (*ZERO_AT_FIRST, torch.optim.SGD)
        return known and not options.get("centered") and options.get("eps", 1) > 0

    @property
    def misshapen(self) -> list[str]:
        """Names of moments with the wrong shape or dtype, after a callback replaced them."""
        like = self.weights.shape, self.weights.dtype
        moments = self.moments.items() if self.begins_at_zero else ()
        return [name for name, x in moments if x.dim() and (x.shape, x.dtype) != like]

    @property
    def _kind(self) -> type:
        kind = type(self.optimizer)
        return kind.__bases__[1] if issubclass(kind, _Eager) else kind

    def schedule(self, env_steps: int) -> dict[str, Tensor]:
        """Set a scheduled learning rate and return the metric `lr`."""
        if self.lr_factors is None:
            return {}
        lr = self.initial_lr * piecewise(self.lr_factors, env_steps)
        options = self.optimizer.param_groups[0]
        if self.weights.is_cuda:  # where a captured step reads it
            options["lr"] = torch.as_tensor(options["lr"], device=self.weights.device).fill_(lr)
        else:
            options["lr"] = lr
        return {"lr": torch.tensor(lr)}

    def take(self, result: LossResult) -> tuple[Number, Number]:
        """Take a step on a loss. Returns 1 if it was not finite and was undone, else 0, and the
        gradient norm before clipping.
        """
        gradient = self.flat.gradient
        if self.misshapen:
            raise ValueError(f"{self.misshapen} of the optimizer's state are not like the weights.")
        if self.sum_over_ranks is not None:
            loss = self._over_ranks(result, self.sum_over_ranks)
        else:
            count = torch.as_tensor(result.count).clamp(min=1)
            loss = torch.as_tensor(result.loss_sum) / count
            if result.gradient is not None:
                torch.div(result.gradient, count, out=gradient)
            else:
                gradient.zero_()
                if loss.requires_grad:  # else no transition was learned
                    loss.backward()
        with one_thread(when=gradient.is_cpu):  # a sum's rounding depends on the number of threads
            grad_norm = torch.linalg.vector_norm(gradient)
        if self.max_grad_norm is not None:
            gradient.mul_((self.max_grad_norm / (grad_norm + 1e-6)).clamp(max=1))
        finite = torch.isfinite(loss.detach() + grad_norm)
        if finite.is_cpu and not finite:  # reading it costs nothing here
            return 1 - finite.float(), grad_norm
        begun = self.begun
        if finite.is_cpu and begun and self.steps_finite:
            self._optimize()
            return 1 - finite.float(), grad_norm
        state = [self.weights, *self.moments.values()] if begun else [self.weights]
        before = [tensor.clone() for tensor in state]
        self._optimize()
        if not self.steps_finite:
            finite = finite & torch.isfinite(self.weights).all()
        for tensor, old in zip(state, before, strict=True):
            torch.where(finite.to(tensor.device), tensor, old, out=tensor)
        if not begun and finite:
            self._begun = self.optimizer, len(self.moments)
        elif not begun:
            self.optimizer.state.clear()
        return 1 - finite.float(), grad_norm

    def _over_ranks(self, result: LossResult, sum_over_ranks: Callable[[Tensor], None]) -> Tensor:
        """Return the loss over all ranks' batches, and set its gradient.

        Gradient, sum and count are summed as one tensor, so that a step waits for other ranks once.
        """
        gradient = self.flat.gradient
        loss_sum = torch.as_tensor(result.loss_sum)
        if result.gradient is None:
            gradient.zero_()
            if loss_sum.requires_grad:
                loss_sum.backward()
        summed = gradient if result.gradient is None else result.gradient
        numbers = torch.stack([loss_sum.detach(), torch.as_tensor(result.count)]).to(gradient)
        whole = torch.cat([summed, numbers])
        sum_over_ranks(whole)
        count = whole[-1].clamp(min=1)
        torch.div(whole[:-2], count, out=gradient)
        return whole[-2] / count

    def _optimize(self) -> None:
        """The optimizer's step, on one thread for few weights: PyTorch's fused kernels use all
        threads for any size (measured for 11,000 weights: 759 us on 16 threads, 118 us on one).
        """
        few = self.weights.numel() < FEW_WEIGHTS
        with one_thread(when=few), flushed_denormals(when=few):
            self.optimizer.step()

    def _begin(self, of_any: bool = False) -> None:
        """Create the optimizer's state with a zero-gradient step that is undone; that which begins
        elsewhere than at zero only if it is loaded then (``of_any``).
        """
        if of_any or self.begins_at_zero:
            weights = self.weights.clone()
            self.optimizer.step()
            self.weights.copy_(weights)
            for tensor in self.moments.values() if self.begins_at_zero else ():
                tensor.zero_()
        elif not self.optimizer.state:  # Adagrad's is created by its constructor
            return
        self._begun = self.optimizer, len(self.moments)

    def _changed_options(self) -> dict[str, Tensor]:
        """Options that differ from the configuration: a callback may lower the rate."""
        return {
            name: _tensor(x)
            for name, x in self.optimizer.param_groups[0].items()
            if isinstance(x, NUMBERS) and self._configured.get(name, x) not in (None, x)
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the moments, the optimizer's other numbers, and changed options."""
        if not self.begun:  # a callback may have replaced the optimizer or its state
            self._begin()
        state = self.optimizer.state.get(self.flat.values, {}) if self.begun else {}
        kept = {name: x for name, x in state.items() if isinstance(x, Tensor | int | float)}
        kept |= {OPTION + name: x for name, x in self._changed_options().items()}
        return {name: _tensor(x) for name, x in kept.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state_dict`` returned.

        Raises:
            ValueError: the state comes from another optimizer, or holds what none computes.
        """
        known = {OPTION + name for name in self.optimizer.param_groups[0]}
        options = {name: x for name, x in state.items() if name in known}
        state = {name: x for name, x in state.items() if name not in options}
        group = self.optimizer.param_groups[0]
        group |= {name: self._configured[name] for name in self._changed_options()}
        group |= {name.removeprefix(OPTION): _option(x) for name, x in options.items()}
        if not state and not self.begins_at_zero:  # saved before the first step
            self.optimizer.state.clear()
            self._begun = None
        elif not self.begun:
            self._begin(of_any=True)
        kept = {name: x for name, x in self.state_dict().items() if not name.startswith(OPTION)}
        if set(state) != set(kept):
            raise ValueError(
                f"the optimizer's state has {', '.join(sorted(state))}, but this optimizer keeps "
                f"{', '.join(sorted(kept))}: set algo.optimizer as it was when the state was saved."
            )
        for name, mine in kept.items():
            saved, low = state[name], 0 if name in NOT_NEGATIVE else -torch.inf
            if (saved.shape, saved.dtype) != (mine.shape, mine.dtype) or not (saved >= low).all():
                raise ValueError(f"the optimizer's {name} is no {list(mine.shape)} of its numbers")
            if name in self.moments:
                self.moments[name].copy_(saved)
            else:
                own = self.optimizer.state[self.flat.values]
                own[name] = type(own[name])(saved.item())


def _tensor(x: object) -> Tensor:
    """A copy of a tensor, or an exact tensor of one or several numbers."""
    if isinstance(x, Tensor):
        return x.clone()
    return torch.from_numpy(np.array(x, None if isinstance(x, bool | int) else np.float64))


def _option(x: Tensor) -> Any:
    """The value that ``_tensor`` converted; a tensor, too, if it has fewer digits than a number."""
    return tuple(x.tolist()) if x.dim() else x if x.dtype == torch.float32 else x.item()
