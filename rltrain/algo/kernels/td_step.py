"""A learning step of plain feed-forward agents, compiled: values, TD errors and gradient in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.kernels.feed_forward import Stack
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.sum import Independent
from rltrain.interfaces import Loss
from rltrain.types import Batch, Clock, Model, Result

NAMES = "loss", "", "td_error_abs", "q_taken_mean", "target_mean"


def compile_td_loss(loss: Loss, model: Model) -> Loss:
    """The loss in compiled code, if it is a ``TDLoss`` of independent agents that are nothing but
    layers; else the loss itself.
    """
    kind: type = type(loss)
    if kind is not TDLoss:
        return loss
    plain = cast(TDLoss, loss)
    returns = plain.returns
    extended = any(x is not None for x in (plain.rescale, returns.trace, returns.munchausen))
    if extended or type(model.mixer) is not Independent or Stack.of(model.agents) is None:
        return loss
    return CompiledTDLoss(plain)


class CompiledTDLoss:
    """``TDLoss`` with values, errors and gradient from one compiled function."""

    per_agent = of_team = False
    targets: Callable[..., Tensor] | None = None

    def __init__(self, loss: TDLoss) -> None:
        self.loss, self.n_step = loss, loss.n_step
        huber = np.float32(-1 if loss.huber is None else loss.huber)
        returns = loss.returns
        self.options = np.float32(returns.gamma), returns.double, returns.n_step, huber
        self._stacks: dict[nn.Module, Stack] = {}  # by agents: online and target

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """As ``TDLoss``; with ``gradient``, that of the flat parameters."""
        stack = self._stack(online.agents)
        if not stack.compiles or batch.agent is not None or batch.td_target is not None:
            return self.loss(online, target, batch, clock)
        return td_step(stack, self._stack(target.agents), batch, self.options)

    def _stack(self, agents: nn.Module) -> Stack:
        if agents not in self._stacks:
            stack = Stack.of(agents)
            assert stack is not None
            self._stacks[agents] = stack
        return self._stacks[agents]


def td_step(
    online: Stack, target: Stack, batch: Batch, options: tuple[np.float32, bool, int, np.float32]
) -> Result:
    """``TDLoss`` of independent agents whose values are those of a stack of layers.
    ``options``: discount, double Q-learning, rewards summed, Huber's bound or -1.

    Raises:
        IndexError: sizes that do not fit, or an action out of range.
    """
    from rltrain.algo.kernels import td_step_kernel

    flat = online.weights()
    gradient = np.empty_like(flat)
    priority = np.zeros(len(batch.weight), np.float32)
    sums = np.zeros(5)
    fits = td_step_kernel.step(
        td_step_kernel.Arrays(
            batch.obs.flatten(3).numpy(),
            batch.avail_actions.numpy(),
            batch.last.numpy(),
            batch.action.numpy(),
            batch.reward.numpy(),
            batch.terminated.numpy(),
            batch.mask.numpy(),
            batch.weight.numpy(),
        ),
        len(batch.action) if batch.mask_end is None else batch.mask_end,
        (flat, target.weights(), online.shapes, online.cut),
        options,
        np.float32(batch.eta),
        gradient,
        priority,
        sums,
    )
    if not fits:
        raise IndexError("the batch does not fit the network, or an action is out of range")
    loss_sum, count, *_ = torch.from_numpy(sums.astype(np.float32)).unbind()
    means = torch.from_numpy((sums / max(sums[1], 1)).astype(np.float32)).unbind()
    metrics = {name: mean for name, mean in zip(NAMES, means, strict=True) if name}
    known = torch.from_numpy(gradient)
    return Result(loss_sum, count, torch.from_numpy(priority), metrics, known)
