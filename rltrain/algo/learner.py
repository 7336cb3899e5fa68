"""The learner: one gradient step, clipping, the target network's update, and its state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rltrain.algo.checks import BatchCheck
from rltrain.algo.flat import Buffers, FlatParameters, flatten
from rltrain.common.number_types import Count, Fraction, Positive
from rltrain.common.schedule import piecewise
from rltrain.interfaces import Agents, Loss, Mixer
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Model,
    Result,
    UpdateResult,
)

FEW_WEIGHTS = 200_000


class TargetUpdate:
    """When the target network follows, every so many episodes, env_steps or updates, and how far.

    Counted from the last time, as PyMARL counts, and not at multiples: the distance between two
    copies is what the setting says, and never shorter because the one before was late.
    ``tau`` = 1 copies; below 1 it moves that part of the way (Polyak) each time it is due. Exactly
    one period is set.

    Raises:
        ValueError: none or several periods are set.
    """

    def __init__(
        self,
        *,
        episodes: Count | None,
        env_steps: Count | None,
        updates: Count | None,
        tau: Fraction,
    ) -> None:
        periods = {"episodes": episodes, "env_steps": env_steps, "updates": updates}
        chosen = {unit: period for unit, period in periods.items() if period is not None}
        if len(chosen) != 1:
            raise ValueError(
                "the target update needs exactly one period, "
                f"got {', '.join(f'{k}={v}' for k, v in chosen.items()) or 'none'}: "
                "set one of target_update.episodes, .env_steps, .updates, and the others to null."
            )
        ((self.unit, self.period),) = chosen.items()
        self.tau = tau
        self.done_at = 0

    def due(self, clock: Clock) -> bool:
        """Whether a period has passed since the last time; remembers that it was answered."""
        now: int = getattr(clock, self.unit)
        if now - self.done_at < self.period:
            return False
        self.done_at = now
        return True


class Learner:
    """Gradient steps on ``online``; ``target`` follows.

    All weights of a model are views into one flat tensor and all gradients into another: clipping
    is one norm, the optimiser one parameter, the target's update one copy. A step whose loss or
    gradient is not finite is undone on the device, without asking for its value: weights, buffers,
    moments and counters stay as they were.

    Args:
        spec: sizes that batches are checked against.
        model: agents, mixer and critic, on their device; becomes ``online``.
        loss: what a batch teaches.
        optimizer: from a list of parameters to an optimiser.
        max_grad_norm: bound of the global gradient norm, None for none.
        target_update: when and how far the target network follows.
        lr_schedule: learning rate over env steps, straight lines through [env step, rate] pairs;
            None for the optimiser's own.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        model: Model,
        loss: Loss,
        optimizer: Callable[[list[nn.Parameter]], Optimizer],
        max_grad_norm: Positive | None,
        target_update: TargetUpdate,
        lr_schedule: list[list[float]] | None = None,
    ) -> None:
        self.online, self.target = model, copy.deepcopy(model).requires_grad_(False)
        self.loss, self.max_grad_norm, self.target_update = loss, max_grad_norm, target_update
        self._flat = FlatParameters(self.online)
        self._weights, self._target_weights = self._flat.values, flatten(self.target)
        self._buffers = Buffers(self.online, self.target)
        self.optimizer = optimizer([self._weights])
        self._moments = self._fresh_moments()
        self.lr_schedule = None if lr_schedule is None else _checked(lr_schedule)
        self.check = BatchCheck(
            spec=spec,
            hidden_dim=cast(Agents, model.agents).hidden_dim,
            n_streams=cast(Mixer, model.mixer).n_streams,
            device=self._weights.device,
        )

    def update(self, batch: Batch, clock: Clock) -> UpdateResult:
        """One gradient step on ``batch``, then the target's update if it is due.

        ``clock`` is as it was before the step. Adds to the loss's metrics `grad_norm`, the global
        norm before clipping, `skipped_updates`, 1 where the step was undone because it was not
        finite, and under a schedule `lr`, the learning rate.

        Raises:
            ValueError: a batch that does not fit the network, or parameters of ``online`` that
                were replaced; names them.
        """
        self.check(batch)
        self._flat.require_attached()
        scheduled = {}
        if self.lr_schedule is not None:
            lr = piecewise(self.lr_schedule, clock.env_steps)
            self.optimizer.param_groups[0]["lr"] = lr
            scheduled = {"lr": torch.tensor(lr)}
        if not self.online.agents.training:  # a test switched its noise off
            self.online.train()
        buffers = self._buffers.copies()
        try:
            result = self.loss(self.online, self.target, batch, clock)
        except (IndexError, RuntimeError):
            self.check.require_indices(batch)  # names the field, if this is the reason
            raise
        finite, grad_norm = self._step(result)
        self._buffers.restore(buffers, where=~finite)
        if self.target_update.due(clock.after_update()):
            self._follow(self.target_update.tau)
        step = {"grad_norm": grad_norm, "skipped_updates": 1 - finite.float()}
        return UpdateResult(result.priority, {**result.metrics, **step, **scheduled})

    def _step(self, result: Result) -> tuple[Tensor, Tensor]:
        gradient = self._flat.gradient
        count = result.count.clamp(min=1)
        loss = result.loss_sum / count
        if result.gradient is not None:
            torch.div(result.gradient, count, out=gradient)
        else:
            gradient.zero_()
            loss.backward()
        grad_norm = torch.linalg.vector_norm(gradient)
        if self.max_grad_norm is not None:
            gradient.mul_((self.max_grad_norm / (grad_norm + 1e-6)).clamp(max=1))
        finite = torch.isfinite(loss.detach() + grad_norm)
        if finite.is_cpu:  # asking costs nothing here
            if finite:
                self._optimize()
            return finite, grad_norm
        state = [self._weights.data, *self._moments.values()]
        before = [tensor.clone() for tensor in state]
        self.optimizer.step()
        for tensor, old in zip(state, before, strict=True):
            torch.where(finite, tensor, old, out=tensor)
        return finite, grad_norm

    def _optimize(self) -> None:
        """The optimiser's step, on one thread for few weights: torch's fused kernels call on all
        threads however little there is to do (measured for 11 000: 759 us on 16, 118 us on one).
        """
        n_threads = torch.get_num_threads()
        few = n_threads > 1 and self._weights.numel() < FEW_WEIGHTS
        if few:
            torch.set_num_threads(1)
        self.optimizer.step()
        if few:
            torch.set_num_threads(n_threads)

    def _follow(self, tau: float) -> None:
        """Move the target. Its buffers become copies even below ``tau`` = 1: statistics are running
        averages already, and counters among them cannot be interpolated (as Stable-Baselines3 does,
        issue 996).
        """
        self._buffers.to_target()
        if tau == 1:
            self._target_weights.copy_(self._weights.data)
        else:
            self._target_weights.lerp_(self._weights.data, tau)

    def _fresh_moments(self) -> dict[str, Tensor]:
        """The optimiser's tensors, made by a step on a zero gradient that is taken back."""
        weights = self._weights.data.clone()
        self.optimizer.step()
        self._weights.data.copy_(weights)
        moments = dict(self.optimizer.state[self._weights])
        for tensor in moments.values():
            tensor.zero_()
        return moments

    def state_dict(self) -> dict[str, Any]:
        """Copies of weights and the optimiser's moments, and when the target last followed."""
        return {
            "online": _copies(self.online.state_dict()),
            "target": _copies(self.target.state_dict()),
            "optimizer": _copies(self._moments),
            "target_update": {"done_at": self.target_update.done_at},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` said.

        Raises:
            ValueError: the state comes from another optimiser.
            RuntimeError: the weights come from another network.
        """
        if set(state["optimizer"]) != set(self._moments):
            raise ValueError(
                f"the optimiser's state has {', '.join(sorted(state['optimizer']))}, "
                f"but this optimiser keeps {', '.join(sorted(self._moments))}: "
                "set algo.optimizer as it was when the state was saved."
            )
        self.online.load_state_dict(state["online"])
        self.target.load_state_dict(state["target"])
        for name, tensor in self._moments.items():
            tensor.copy_(state["optimizer"][name])
        self.target_update.done_at = int(state["target_update"]["done_at"])


def _checked(points: list[list[float]]) -> list[list[float]]:
    pairs = bool(points) and all(len(point) == 2 for point in points)
    if not pairs or any(a[0] >= b[0] for a, b in pairwise(points)):
        raise ValueError(
            f"algo.lr_schedule: expected [env step, rate] pairs in order, got {points}. "
            "Type for example algo.lr_schedule='[[0,1e-3],[100000,1e-4]]'."
        )
    return points


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
