"""A learning step of plain feed-forward agents, compiled: values, errors and gradient in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.common.array_batch import array_of
from rltrain.interfaces import Loss, Model
from rltrain.kernels.stack import NO_POINTS, Stack, output_kind
from rltrain.kernels.watch import ModuleWatch, watched
from rltrain.types import Batch, Clock, Number, Result

MOST_PRODUCTS = 50_000_000
"""Multiplications of a forward pass above which PyTorch learns faster, on one thread."""
NAMES = "td_error_abs", "q_taken_mean", "target_mean", "clipped_target_mass"


class CompiledTDLoss(Loss):
    """``TDLoss``, ``CategoricalLoss`` or ``QuantileLoss`` with values, errors and gradient from one
    compiled function, which uses one thread. Large networks are left to PyTorch and its threads.
    """

    def __init__(self, loss: TDLoss | CategoricalLoss | QuantileLoss) -> None:
        self.loss, self.n_step = loss, loss.n_step
        distribution = None if isinstance(loss, TDLoss) else loss.bellman.distribution
        self.outputs = (0, NO_POINTS) if distribution is None else output_kind(distribution)
        self._stacks: dict[nn.Module, Stack] = {}  # by agents: online and target
        self._watches: dict[Model, ModuleWatch] = {}  # by online model

    @property
    def acted_error(self) -> Callable[..., Tensor] | None:
        """That of the loss."""
        return self.loss.acted_error

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """As the loss; with ``gradient``, that of the flat parameters."""
        stack = self._stack(online.agents)
        mask_end = batch.mask_end
        if mask_end is None:
            mask_end = len(batch.action)
        separate = batch.agent is None and batch.td_target is None
        one_noise = mask_end == 1 or not stack.draws_noise  # in all that is learned
        n_learned = mask_end * batch.action[0].numel()
        small = stack.n_products * n_learned * torch.get_num_threads() <= MOST_PRODUCTS
        compiles = stack.compiles and watched(self._watches, online, target).plain()
        if not (small and compiles and separate and one_noise and mask_end > 0):
            return self.loss(online, target, batch, clock)
        agents = cast(FeedForward, online.agents)
        arrays = batch_arrays(agents, batch)
        options = loss_options(self.loss, batch.eta)
        target_stack = self._stack(target.agents)
        return td_step(stack, target_stack, arrays, mask_end, options, self.outputs)

    def _stack(self, agents: nn.Module) -> Stack:
        if agents not in self._stacks:
            self._stacks[agents] = Stack.required(agents)
        return self._stacks[agents]


def loss_options(loss: TDLoss | CategoricalLoss | QuantileLoss, eta: float) -> Any:
    """``LossOptions`` of a loss and its batches' ``eta``."""
    from rltrain.kernels.td_error_kernel import LossOptions

    trace, bound = None, loss.kappa if isinstance(loss, QuantileLoss) else None
    if isinstance(loss, TDLoss):
        trace, bound = loss.returns.trace, loss.huber
    settings = loss.returns if isinstance(loss, TDLoss) else loss.bellman
    return LossOptions(
        gamma=np.float32(settings.gamma),
        double=bool(settings.double),
        n_step=loss.n_step,
        trace=np.float32(-1 if trace is None else trace),
        bound=np.float32(-1 if bound is None else bound),
        eta=np.float32(eta),
    )


def td_step(
    online: Stack,
    target: Stack,
    batch: Any,
    mask_end: int,
    options: Any,
    outputs: tuple[int, np.ndarray],
) -> Result:
    """The loss of independent agents whose outputs are those of a stack of layers.

    Args:
        batch, options: ``BatchArrays`` and ``LossOptions``.
        outputs: ``output_kind`` of the distribution.

    Raises:
        IndexError: sizes that do not fit, or an action out of range.
    """
    from rltrain.kernels import td_step_kernel

    networks, levels, noise = draw(online, target, batch.action.shape, mask_end, options.double)
    gradient = np.empty_like(networks[0])
    priority, sums = np.zeros(len(batch.weight), np.float32), np.zeros(2 + len(NAMES))
    results = gradient, priority, sums
    if not td_step_kernel.step(batch, levels, mask_end, networks, options, *outputs, *results):
        raise IndexError("the batch does not fit the network, or an action is out of range")
    means = (sums / max(sums[1], 1)).astype(np.float32)
    metrics: dict[str, Number] = {"loss": means[0]}
    names = NAMES if outputs[0] == 1 else NAMES[:-1]
    metrics.update(zip(names, means[2:], strict=False))
    known = torch.from_numpy(online.of_parameters(gradient, noise))
    loss_sum, count = np.float32(sums[0]), np.float32(sums[1])
    return Result(loss_sum, count, torch.from_numpy(priority), metrics, known)


def draw(
    online: Stack, target: Stack, sizes: tuple[int, int, int], mask_end: int, double: bool
) -> tuple[tuple[Any, ...], tuple[np.ndarray, ...], np.ndarray]:
    """Networks and quantile levels of ``td_step_kernel.step``, drawn in the order of the losses,
    and the noise of the network that learns.

    Args:
        sizes: T, B, N.
        double: whether the online network chooses.
    """
    n_steps, n_rows, implicit = sizes[0], sizes[1] * sizes[2], online.levels is not None
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


def batch_arrays(agents: FeedForward, batch: Batch) -> Any:
    """``BatchArrays`` whose observations are the inputs of the first layer, [T+1, B, N, …]."""
    from rltrain.kernels.td_error_kernel import BatchArrays

    fields = {name: array_of(batch, name) for name in BatchArrays._fields if name != "obs"}
    if agents.input.bare:
        obs = array_of(batch, "obs")
        return BatchArrays(obs=obs.reshape(*obs.shape[:3], -1), **fields)
    inputs = agents.input(batch.obs.flatten(0, 1), batch.last_action.flatten(0, 1), None)
    return BatchArrays(obs=inputs.reshape(*batch.obs.shape[:3], -1).numpy(), **fields)
