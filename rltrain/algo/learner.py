"""The learner: gradient steps with clipping, target-network updates, and their state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rltrain.algo.checks import BatchCheck
from rltrain.algo.flat_parameters import Buffers, flatten
from rltrain.algo.normalization import RewardNorm
from rltrain.algo.optimizer import GradientStep
from rltrain.algo.target_update import TargetUpdate
from rltrain.common.number_types import Positive
from rltrain.interfaces import Loss, Model
from rltrain.types import Batch, Clock, EnvSpec, StateDict, UpdateResult


class Learner:
    """Takes gradient steps on ``online`` and updates its copy, ``target``.

    All weights of a model are views into one flat tensor, so a copy is one operation. A step that
    is not finite changes nothing (``GradientStep``).

    Args:
        spec: sizes that batches are checked against.
        model: agents, mixer and critic, on their device; becomes ``online``.
        loss: the loss of a batch.
        optimizer, max_grad_norm, lr_factors: see ``GradientStep``.
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
        """The optimizer; a callback may replace that of ``gradient_step``."""
        return self.gradient_step.optimizer

    # twin: kernels/learning.py
    @torch.inference_mode(False)  # with gradients, even if a callback has disabled them
    def update(self, batch: Batch, clock: Clock) -> UpdateResult:
        """Take a gradient step on ``batch``, and update the target network if it is due.

        ``clock`` is the clock before the step. Adds to the loss's metrics `grad_norm`, the global
        norm before clipping; `skipped_updates`, 1 if the step was undone because it was not
        finite; and, with a schedule, `lr`, the learning rate.

        Raises:
            ValueError: the batch does not fit the network, parameters of ``online`` were replaced
                (the message names them), or ``clock`` is no ``Clock``.
        """
        if not isinstance(clock, Clock):
            raise ValueError(f"clock: expected an rltrain.types.Clock, got {clock!r}.")
        self.check(batch)
        self.gradient_step.flat.require_attached()
        scheduled = self.gradient_step.schedule(clock.env_steps)
        if not self.online.agents.training:  # a test disabled its noise
            self.online.train()
        priority, metrics = self.step(batch, clock)
        if self.target_update.due(clock.after_update()):
            self._update_target(self.target_update.tau)
        return UpdateResult(priority, {**metrics, **scheduled} if scheduled else metrics)

    # twin: kernels/learning.py
    def step(self, batch: Batch, clock: Clock) -> UpdateResult:
        """The gradient step of ``update``, captured in CUDA graphs: it must not wait for a GPU."""
        if self.reward_norm is not None:
            batch = self.reward_norm(batch)
        buffers = self.buffers.copies()
        try:
            result = self.check.result(self.loss(self.online, self.target, batch, clock), batch)
        except (IndexError, RuntimeError):
            self.check.require_indices(batch)  # names the field, if that is the cause
            raise
        skipped, grad_norm = self.gradient_step.take(result)
        if buffers:
            self.buffers.restore(buffers, where=torch.as_tensor(skipped).bool())
        step = {"grad_norm": grad_norm, "skipped_updates": skipped}
        return UpdateResult(result.priority, {**result.metrics, **step})

    def _update_target(self, tau: float) -> None:
        """Update the target network. Its buffers are copied even if ``tau`` < 1: statistics are
        already running averages, and counters cannot be interpolated (as in Stable-Baselines3,
        issue 996).
        """
        self.buffers.to_target()
        if tau == 1:
            self._target_weights.copy_(self.gradient_step.weights)
        else:
            self._target_weights.lerp_(self.gradient_step.weights, tau)

    def state_dict(self) -> StateDict:
        """Copies of the weights, the optimizer's moments and all other state of training."""
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
        if state["loss"]:
            self.loss.load_state_dict(state["loss"])
        self.target_update.load_state_dict(state["target_update"])
        if self.reward_norm is not None:
            self.reward_norm.load_state_dict(state["reward_norm"])


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
