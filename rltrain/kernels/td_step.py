"""A learning step of plain feed-forward agents, compiled: values, errors and gradient in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.sum import Independent
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.common.array_batch import array_of
from rltrain.interfaces import Loss
from rltrain.kernels.feed_forward import Stack, outputs_of
from rltrain.kernels.twins.watch import Watch, watched
from rltrain.types import Batch, Clock, Model, Number, Result

if TYPE_CHECKING:
    from rltrain.kernels.td_step_kernel import Options

FIELDS = "avail_actions", "last", "action", "reward", "terminated", "mask", "weight"
MOST_PRODUCTS = 50_000_000
"""Multiplications of a forward pass above which PyTorch learns faster, on one thread."""
NAMES = "td_error_abs", "q_taken_mean", "target_mean", "clipped_target_mass"


def compile_td_loss(loss: Loss, model: Model) -> Loss:
    """The loss in compiled code, if it is one of independent agents that are nothing but layers;
    else the loss itself.
    """
    kind: type = type(loss)
    if kind not in (TDLoss, CategoricalLoss, QuantileLoss):
        return loss
    if type(model.mixer) is not Independent or Stack.of(model.agents) is None:
        return loss
    if kind is TDLoss:
        plain = cast(TDLoss, loss)
        returns = plain.returns
        if any(x is not None for x in (plain.rescale, returns.trace, returns.munchausen)):
            return loss
    return CompiledTDLoss(loss)


class CompiledTDLoss:
    """``TDLoss``, ``CategoricalLoss`` or ``QuantileLoss`` with values, errors and gradient from one
    compiled function, which uses one thread. Large networks are left to PyTorch and its threads.
    """

    per_agent = of_team = False
    targets: Callable[..., Tensor] | None = None

    def __init__(self, loss: Loss) -> None:
        self.loss, self.n_step = loss, loss.n_step
        self.acted_error = loss.acted_error
        self.options = options_of(loss)
        self._stacks: dict[nn.Module, Stack] = {}  # by agents: online and target
        self._watches: dict[Model, Watch] = {}  # by online model

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
        return td_step(stack, self._stack(target.agents), agents, batch, self.options)

    def _stack(self, agents: nn.Module) -> Stack:
        if agents not in self._stacks:
            stack = Stack.of(agents)
            assert stack is not None
            self._stacks[agents] = stack
        return self._stacks[agents]


def options_of(loss: Loss) -> Options:
    """What the compiled step needs to know of a loss."""
    from rltrain.kernels.td_step_kernel import Options

    if isinstance(loss, TDLoss):
        huber = np.float32(-1 if loss.huber is None else loss.huber)
        returns = loss.returns
        gamma, double, outputs = returns.gamma, returns.double, (0, np.zeros(0, np.float32))
    else:
        bellman = cast(CategoricalLoss, loss).bellman
        huber = np.float32(loss.kappa if isinstance(loss, QuantileLoss) else 0)
        gamma, double = bellman.gamma, bellman.double
        outputs = outputs_of(cast(nn.Module, bellman.distribution))
    return Options(np.float32(gamma), bool(double), loss.n_step, outputs[0], huber, outputs[1])


def td_step(
    online: Stack, target: Stack, agents: FeedForward, batch: Batch, options: Options
) -> Result:
    """The loss of independent agents whose outputs are those of a stack of layers.

    Raises:
        IndexError: sizes that do not fit, or an action out of range.
    """
    from rltrain.kernels import td_step_kernel

    fields = td_step_kernel.Arrays(*(array_of(batch, name) for name in FIELDS))
    rows = network_rows(agents, batch)
    n_steps, n_windows = fields.last.shape
    mask_end = n_steps - 1 if batch.mask_end is None else batch.mask_end
    priority, sums = np.zeros(n_windows, np.float32), np.zeros(2 + len(NAMES))
    levels: tuple[Any, ...] = ()
    if online.levels is None:
        flat, noise = online.drawn()
        evaluated = n_steps if options.double else n_steps - 1  # time steps, in two calls
        chooser = online.drawn()[0] if online.draws_noise and evaluated > mask_end else flat
        networks = flat, chooser, target.drawn()[0], online.shapes, online.cut
        step = td_step_kernel.step
    else:
        from rltrain.kernels import implicit_kernel

        networks, noise, levels = implicit_networks(
            online, target, (n_steps - 1, mask_end, rows[0].size // rows.shape[-1]), options.double
        )
        step = implicit_kernel.step
    gradient = np.empty_like(networks[0])
    eta = np.float32(batch.eta)
    fits = step(fields, rows, *levels, mask_end, networks, options, eta, gradient, priority, sums)
    if not fits:
        raise IndexError("the batch does not fit the network, or an action is out of range")
    means = (sums / max(sums[1], 1)).astype(np.float32)
    metrics: dict[str, Number] = {"loss": means[0]}
    names = NAMES if options.kind == 1 else NAMES[:-1]
    metrics.update(zip(names, means[2:], strict=False))
    known = torch.from_numpy(online.of_parameters(gradient, noise))
    loss_sum, count = np.float32(sums[0]), np.float32(sums[1])
    return Result(loss_sum, count, torch.from_numpy(priority), metrics, known)


def implicit_networks(
    online: Stack, target: Stack, sizes: tuple[int, int, int], double: bool
) -> tuple[tuple[Any, ...], np.ndarray, tuple[Any]]:
    """Networks and levels of ``implicit_kernel.step``, drawn in the order of ``QuantileLoss``, and
    the noise of the network that learns.

    Args:
        online, target: networks.
        sizes: time steps T, those that are learned, and rows of each.
        double: whether the online network chooses.
    """
    n_steps, mask_end, n_rows = sizes
    own = online.draw_levels(mask_end * n_rows, "online")
    flat, noise = online.drawn()
    if n_steps > mask_end:  # evaluated by the loss without a gradient
        online.draw_levels((n_steps - mask_end) * n_rows, "online")
        online.drawn()
    of_target, of_choice = (target.draw_levels(n_steps * n_rows, u) for u in ("target", "acting"))
    target_flat, chooser = target.drawn()[0], flat
    if double:
        _, of_choice = (online.draw_levels(n_steps * n_rows, u) for u in ("target", "acting"))
        chooser = online.drawn()[0]
    networks = flat, chooser, target_flat, online.shapes, online.cut
    return networks, noise, ((own, of_target, of_choice),)


def network_rows(agents: FeedForward, batch: Batch) -> np.ndarray:
    """What the first layer gets, [T+1, B, N, …]."""
    if agents.input.bare:
        obs = array_of(batch, "obs")
        return obs.reshape(*obs.shape[:3], -1)
    obs = agents.input(batch.obs.flatten(0, 1), batch.last_action.flatten(0, 1), None)
    return obs.reshape(*batch.obs.shape[:3], -1).numpy()
