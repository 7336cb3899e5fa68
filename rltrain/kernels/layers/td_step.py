"""A learning step of plain feed-forward agents, compiled: values, errors and gradient in one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.sum import Independent
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.buffer.lazy_batch import cpu_arrays
from rltrain.interfaces import Model
from rltrain.kernels.layers.stack import Stack, output_kind
from rltrain.kernels.module_watch import COMPILED, ModuleWatch, unreplaced
from rltrain.types import Batch, Clock, LossResult, Number

MOST_PRODUCTS = 50_000_000
"""Multiplications of a forward pass above which PyTorch learns faster, on one thread."""
NAMES = "td_error_abs", "q_taken_mean", "target_mean", "clipped_target_mass"


class CompiledLoss(ABC):
    """A loss whose values, errors and gradient come from one compiled function, where that can
    compute a batch; else from PyTorch. All other attributes are those of the loss.
    """

    knows_settings: Callable[[Any], bool]  # whether compiled code has the settings of a loss
    places: Sequence[str | type] = ()  # the plain code that it computes
    form: object = None  # of the model that it was chosen for
    left = False  # that was replaced
    program: str | None = None  # of ``python -m rltrain.kernels`` that compiles it ahead, and
    kernel = ""  # what that compiles last, module:function below rltrain.kernels

    def __new__(cls, *loss: object, **options: object) -> CompiledLoss:
        self = super().__new__(cls)
        COMPILED.add(self)  # copies, too
        return self

    def __init__(self, loss: TDLoss | CategoricalLoss | QuantileLoss) -> None:
        self.loss = self.part = loss
        self.made_for = type(loss)
        self._kinds = {name: type(x) for name, x in vars(loss).items() if is_dataclass(x)}
        self._watches: dict[Model, ModuleWatch] = {}  # by online model

    def __getattr__(self, name: str) -> Any:
        if name == "loss":  # while it is copied
            raise AttributeError(name)
        return getattr(self.loss, name)

    def __setattr__(self, name: str, value: object) -> None:
        if "loss" in vars(self) and hasattr(self.loss, name):
            setattr(self.loss, name, value)
        else:
            object.__setattr__(self, name, value)

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """As the loss; if compiled, with ``gradient``, that of the flat parameters."""
        if self.plain(online, target) and self.computes(online, target, batch):
            return self.step(online, target, batch)
        return self.loss(online, target, batch, clock)

    def plain(self, online: Model, target: Model) -> bool:
        """Whether networks and loss compute as their classes say, and the loss with settings that
        compiled code has; logs why not, once.
        """
        watch = self._watches.get(online)
        if watch is None or watch.modules[1] is not target:
            watch = self._watches[online] = ModuleWatch(
                online, target, learns=True, expected=self.form
            )
        parts = self.loss, *map(vars(self.loss).get, self._kinds)
        same = unreplaced(parts, (self.made_for, *self._kinds.values()))
        return watch.plain() and same and not self.left and self.knows_settings(self.loss)

    def leave(self) -> None:
        """Let PyTorch compute from now on."""
        self.left = True

    def misfit(self, model: Model) -> str | None:
        """Why compiled code cannot read the weights of a model; None if it can."""
        return None

    @abstractmethod
    def computes(self, online: Model, target: Model, batch: Batch) -> bool:
        """Whether compiled code can compute a batch of plain networks."""

    @abstractmethod
    def step(self, online: Model, target: Model, batch: Batch) -> LossResult:
        """The loss in compiled code.

        Raises:
            IndexError: the batch does not fit the network, or an action is out of range.
        """


def compiled_loss(
    loss: TDLoss | CategoricalLoss | QuantileLoss, model: Model, *options: object
) -> CompiledTDLoss | None:
    """The counterpart of a loss of agents that are nothing but layers and learn by themselves, with
    n-step returns.
    """
    stack = Stack.of(model.agents)
    if type(model.mixer) is not Independent or stack is None or not n_step_returns(loss):
        return None
    in_order = [*map(id, stack.tensors)] == [*map(id, model.parameters())]
    return CompiledTDLoss(loss) if in_order else None


def n_step_returns(loss: TDLoss | CategoricalLoss | QuantileLoss) -> bool:
    """Whether a loss has n-step returns of values as they are."""
    if not isinstance(loss, TDLoss):
        return True
    more = loss.rescale, loss.returns.trace, loss.returns.munchausen
    return all(x is None for x in more)


class CompiledTDLoss(CompiledLoss):
    """A loss of independent agents that are nothing but layers, on one thread. Large networks are
    left to PyTorch and its threads.
    """

    knows_settings, kernel = staticmethod(n_step_returns), "layers.td_step_kernel:step"

    def __init__(self, loss: TDLoss | CategoricalLoss | QuantileLoss) -> None:
        super().__init__(loss)
        self._stacks: dict[nn.Module, Stack | None] = {}  # by agents: online and target
        if isinstance(loss, TDLoss):  # distributions take longer, and are used less
            self.program = "td_step"

    @property
    def outputs(self) -> tuple[int, np.ndarray | None]:
        """``output_kind`` of what is learned; read where compiled code computes, on the CPU."""
        loss = self.loss
        return (0, None) if isinstance(loss, TDLoss) else output_kind(loss.distribution)

    def computes(self, online: Model, target: Model, batch: Batch) -> bool:
        """One noise in all that is learned, and a small network."""
        separate = batch.agent is None and batch.td_target is None
        rows = batch.action.shape[1] * batch.action.shape[2]
        return separate and self.computes_rows(online, target, end_of_mask(batch), rows)

    def computes_rows(self, online: Model, target: Model, mask_end: int, n_rows: int) -> bool:
        """Whether compiled code can compute batches of ``n_rows`` agents' windows."""
        entries = [cast(FeedForward, model.agents).input for model in (online, target)]
        stack, other = self.stacks(online, target)
        if stack is None or other is None or entries[0].scale != entries[1].scale:
            return False
        one_noise = mask_end == 1 or not stack.draws_noise
        n_products = stack.n_products * mask_end * n_rows * torch.get_num_threads()
        small = n_products <= MOST_PRODUCTS and one_noise and mask_end > 0
        if not (small and stack.reachable and other.reachable):
            return False
        points, own = self.outputs[1], stack.outputs[1]
        return points is None or own is None or np.array_equal(points, own)

    def step(self, online: Model, target: Model, batch: Batch) -> LossResult:
        """All networks and errors in one call."""
        (stack, other), mask_end = self.stacks(online, target), end_of_mask(batch)
        arrays = input_arrays(cast(FeedForward, online.agents), batch)
        options = loss_options(self.loss, batch.eta)
        networks, levels, noise = draw(stack, other, arrays.action.shape, mask_end, options.double)
        gradient, priority, sums = self.computed(arrays, levels, mask_end, networks, options)
        names = NAMES if self.outputs[0] == 1 else NAMES[:-1]
        return loss_result(sums, names, priority, stack.parameter_gradient(gradient, noise))

    def computed(
        self, arrays: Any, levels: Any, mask_end: int, networks: Any, options: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, priority and sums of ``td_step_kernel.step``.

        Raises:
            IndexError: the batch does not fit the network, or an action is out of range.
        """
        from rltrain.kernels.compilation import wait
        from rltrain.kernels.layers import td_step_kernel

        wait("td_step")
        priority, sums = np.zeros(len(arrays.weight), np.float32), np.zeros(2 + len(NAMES))
        results = np.empty_like(networks[0]), priority, sums
        if not td_step_kernel.step(
            arrays, levels, mask_end, networks, options, *self.outputs, *results
        ):
            raise IndexError("the batch does not fit the network, or an action is out of range")
        return results

    def stacks(self, *models: Model) -> list[Any]:
        """The layers of models; None in place of those that compiled code does not have."""
        for model in models:
            if model.agents not in self._stacks:
                self._stacks[model.agents] = Stack.of(model.agents)
        return [self._stacks[model.agents] for model in models]


def end_of_mask(batch: Batch) -> int:
    """The step from which on nothing is learned."""
    return len(batch.action) if batch.mask_end is None else batch.mask_end


def loss_result(
    sums: np.ndarray, names: Sequence[str], priority: np.ndarray, gradient: np.ndarray
) -> LossResult:
    """The result of a loss whose ``sums`` are loss, count, and those of the metrics ``names``."""
    means = (sums / max(sums[1], 1)).astype(np.float32)
    metrics: dict[str, Number] = {"loss": means[0], **dict(zip(names, means[2:], strict=False))}
    known = torch.from_numpy(priority), metrics, torch.from_numpy(gradient)
    return LossResult(np.float32(sums[0]), np.float32(sums[1]), *known)


def loss_options(loss: TDLoss | CategoricalLoss | QuantileLoss, eta: float) -> Any:
    """``LossOptions`` of a loss and its batches' ``eta``."""
    from rltrain.kernels.layers.td_error_kernel import LossOptions

    trace, bound = None, loss.kappa if isinstance(loss, QuantileLoss) else None
    if isinstance(loss, TDLoss):
        trace, bound = loss.returns.trace, loss.huber
    settings = loss.returns if isinstance(loss, TDLoss) else loss.bellman
    return LossOptions(
        gamma=np.float32(settings.gamma),
        double=bool(settings.double),
        n_step=settings.n_step,
        trace=np.float32(-1 if trace is None else trace),
        bound=np.float32(-1 if bound is None else bound),
        eta=np.float32(eta),
    )


def draw(
    online: Stack, target: Stack, sizes: tuple[int, int, int], mask_end: int, double: bool
) -> tuple[tuple[object, ...], tuple[np.ndarray | None, ...], np.ndarray]:
    """Networks and quantile levels of ``td_step_kernel.step``, drawn in the order of the losses,
    and the noise of the network that learns.

    Args:
        sizes: T, B, N.
        double: whether the online network chooses.
    """
    n_steps, n_rows, implicit = sizes[0], sizes[1] * sizes[2], online.head is not None
    own = online.draw_levels(mask_end * n_rows, "online")
    flat, noise = online.drawn()
    chooser, apart = flat, n_steps + (double and not implicit) - mask_end
    if apart > 0:  # time steps that the loss evaluates without a gradient
        online.draw_levels(apart * n_rows, "online")
        chooser = online.drawn()[0]
    of_target, of_choice = (target.draw_levels(n_steps * n_rows, u) for u in ("target", "acting"))
    target_flat = target.drawn()[0]
    if double and implicit:
        _, of_choice = (online.draw_levels(n_steps * n_rows, u) for u in ("target", "acting"))
        chooser = online.drawn()[0]
    networks = flat, chooser, target_flat, online.shapes, online.cut
    return networks, (own, of_target, of_choice), noise


def batch_arrays(batch: Batch) -> Any:
    """``BatchArrays`` of a batch on the CPU, contiguous: others are compiled for again."""
    from rltrain.kernels.layers.td_error_kernel import BatchArrays

    arrays = BatchArrays(*map(np.ascontiguousarray, cpu_arrays(batch, BatchArrays._fields)))
    return arrays._replace(obs=arrays.obs.reshape(*arrays.obs.shape[:3], -1))


def input_arrays(agents: FeedForward, batch: Batch) -> Any:
    """``BatchArrays`` whose observations are the inputs of the first layer, [T+1, B, N, …]."""
    arrays = batch_arrays(batch)
    if agents.input.bare:
        return arrays
    rows = agents.input(batch.obs.flatten(0, 1), batch.last_action.flatten(0, 1), None)
    return arrays._replace(obs=rows.reshape(*batch.obs.shape[:3], -1).numpy())
