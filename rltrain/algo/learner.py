"""The learner: one gradient step, clipping, the target network's update, and its state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rltrain.algo.checks import BatchCheck
from rltrain.algo.flat_parameters import Buffers, flatten
from rltrain.algo.optimizer import GradientStep
from rltrain.algo.reward_norm import RewardNorm
from rltrain.algo.target_update import TargetUpdate
from rltrain.common.number_types import Positive
from rltrain.interfaces import Loss, Model
from rltrain.types import Batch, Clock, EnvSpec, StateDict, UpdateResult


class Learner:
    """Gradient steps on ``online``, and updates of its copy ``target``.

    All weights of a model are views into one flat tensor, so that a copy is one operation. A step
    that is not finite changes nothing (``GradientStep``).

    Args:
        spec: sizes that batches are checked against.
        model: agents, mixer and critic, on their device; becomes ``online``.
        loss: of a batch.
        optimizer, max_grad_norm, lr_factors: of ``GradientStep``.
        target_update: when and how far the target network is updated.
        reward_norm: normalizes the rewards of every batch.
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
        lr_factors: list[list[float]] | None = None,
        reward_norm: RewardNorm | None = None,
    ) -> None:
        self.online, self.target = model, copy.deepcopy(model).requires_grad_(False)
        self.loss, self.target_update, self.reward_norm = loss, target_update, reward_norm
        self.gradient_step = GradientStep(self.online, optimizer, max_grad_norm, lr_factors)
        self._target_weights = flatten(self.target)
        self.buffers = Buffers(self.online, self.target)
        self.check = BatchCheck(
            spec=spec,
            hidden_dim=model.agents.hidden_dim,
            n_streams=model.mixer.n_streams,
            device=self._target_weights.device,
        )

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer of ``gradient_step``, where a callback may replace it."""
        return self.gradient_step.optimizer

    # twin: kernels/learning.py
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
        self.gradient_step.flat.require_attached()
        scheduled = self.gradient_step.schedule(clock.env_steps)
        if not self.online.agents.training:  # a test switched its noise off
            self.online.train()
        priority, metrics = self.step(batch, clock)
        if self.target_update.due(clock.after_update()):
            self._update_target(self.target_update.tau)
        return UpdateResult(priority, {**metrics, **scheduled} if scheduled else metrics)

    # twin: kernels/learning.py
    def step(self, batch: Batch, clock: Clock) -> UpdateResult:
        """The gradient step of ``update``; CUDA graphs capture it: it must not wait for a GPU."""
        if self.reward_norm is not None:
            batch = self.reward_norm(batch)
        buffers = self.buffers.copies()
        try:
            result = self.check.result(self.loss(self.online, self.target, batch, clock), batch)
        except (IndexError, RuntimeError):
            self.check.require_indices(batch)  # names the field, if this is the reason
            raise
        skipped, grad_norm = self.gradient_step.take(result)
        if buffers:
            self.buffers.restore(buffers, where=torch.as_tensor(skipped).bool())
        step = {"grad_norm": grad_norm, "skipped_updates": skipped}
        return UpdateResult(result.priority, {**result.metrics, **step})

    def _update_target(self, tau: float) -> None:
        """Update the target network. Its buffers become copies even below ``tau`` = 1: statistics
        are running averages already, and counters among them cannot be interpolated (as
        Stable-Baselines3 does, issue 996).
        """
        self.buffers.to_target()
        if tau == 1:
            self._target_weights.copy_(self.gradient_step.weights)
        else:
            self._target_weights.lerp_(self.gradient_step.weights, tau)

    def state_dict(self) -> StateDict:
        """Copies of weights and the optimizer's moments, and what else changes while training."""
        return {
            "online": _copies(self.online.state_dict()),
            "target": _copies(self.target.state_dict()),
            "optimizer": self.gradient_step.state_dict(),
            "target_update": self.target_update.state_dict(),
            "loss": getattr(self.loss, "state_dict", dict)(),  # a function has none
            "reward_norm": {} if self.reward_norm is None else self.reward_norm.state_dict(),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Restore what ``state_dict`` returned.

        Raises:
            ValueError: the state comes from another optimizer.
            RuntimeError: the weights come from another network.
        """
        self.gradient_step.load_state_dict(state["optimizer"])
        self.online.load_state_dict(state["online"])
        self.target.load_state_dict(state["target"])
        if state.get("loss"):
            self.loss.load_state_dict(state["loss"])
        self.target_update.load_state_dict(state["target_update"])
        if self.reward_norm is not None:
            self.reward_norm.load_state_dict(state["reward_norm"])


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
