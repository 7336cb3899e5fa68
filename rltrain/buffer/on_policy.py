"""OnPolicyBuffer: the latest collected steps, in shuffled minibatches (PQN)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer import lazy_batch
from rltrain.buffer.fields import TRANSITION, join_frames, step_fields
from rltrain.buffer.lazy_batch import BatchMemory, array_form
from rltrain.buffer.step_check import StepCheck, require_values
from rltrain.common.number_types import require_range, saved_array
from rltrain.errors import require_n_envs
from rltrain.types import STEP_FIELDS, Batch, Clock, EnvSpec, Plan, StateDict, Steps


class OnPolicyBuffer:
    """The latest collected steps, and the step before them. Targets are computed once, at the first
    sample; every transition is drawn once before any is drawn again.

    Args:
        spec: sizes.
        n_envs: environments, E.
        device: device of the batches.
        rng: shuffles the transitions.
        targets: function of all transitions (a batch with T = 1) and ``last`` [T+1, E] that returns
            targets [T, E, M].

    Raises:
        ValueError: the loss has no such targets.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        n_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        targets: Callable[[Batch, Tensor], Tensor] | None,
    ) -> None:
        if targets is None:
            raise ValueError(
                "buffer=on_policy needs a loss that computes the targets of all collected steps at "
                "once, such as that of algo=pqn (algo/loss=q_lambda): choose it, or buffer=replay."
            )
        self.spec, self.n_envs, self.device, self.rng = spec, n_envs, device, rng
        self.targets = targets
        self._step_check = StepCheck(spec, n_envs, step_fields(spec, "float32"))
        self._clear()

    def _clear(self) -> None:
        self.steps: dict[str, np.ndarray] = {}  # [T+1, E, …]; obs begin frame_stack - 1 earlier
        self.first = np.zeros((1, self.n_envs), np.int64)  # [T+1, E] first step of its episode
        self.last_action = np.empty(0)  # [T+1, E, N]
        self.td_target: Tensor | None = None  # [T, E, M]
        self.order = np.empty(0, np.int64)  # transitions t * E + e still to draw, shuffled

    @property
    def n_steps(self) -> int:
        """Number of transitions held."""
        return int((~self.steps["last"][:-1]).sum()) if self.steps else 0

    def plan(self) -> Plan:
        """Sizes for the banner: there is no capacity."""
        obs = math.prod(self.spec.obs_shape) * np.dtype(self.spec.obs_dtype).itemsize
        per_step = obs * self.spec.n_agents + 4 * self.spec.state_dim
        return Plan(bytes_per_step=per_step, worst_case_bytes=None, cap_bytes=0, capacity=0)

    def add(self, steps: Steps) -> None:
        """Replace the steps held; the last one becomes the first.

        Raises:
            ValueError: the steps do not fit the environments (see ``StepCheck``).
        """
        self._step_check(steps)
        new = {name: getattr(steps, name) for name in STEP_FIELDS}
        for name in TRANSITION:
            new[name] = new[name].copy()
            new[name][steps.last] = 0
        before = np.full((1, *steps.action.shape[1:]), -1)
        n_frames = self.spec.frame_stack
        if not self.steps:
            new["obs"] = np.concatenate([*[steps.obs[:1]] * (n_frames - 1), steps.obs])
        else:
            kept = {name: array[-1:] for name, array in self.steps.items()}
            kept["obs"] = self.steps["obs"][-n_frames:]
            before = self.last_action[-1:]
            if steps.lost.any():  # a crashed environment's last step has no successor
                kept["last"] = kept["last"] | steps.lost
            new = {name: np.concatenate([kept[name], new[name]]) for name in STEP_FIELDS}
        self.steps = new
        last, action = new["last"], new["action"]
        shown = np.where(last[:-1, :, None], -1, action[:-1])
        self.last_action = np.concatenate([before, shown])
        first = np.zeros(last.shape, np.int64)  # of its episode; negative if carried over
        first[0] = np.maximum(self.first[-1] - (len(self.first) - 1), 1 - self.spec.frame_stack)
        first[1:] = np.where(last[:-1], np.arange(1, len(last))[:, None], first[0])
        self.first = np.maximum.accumulate(first, 0)
        self.td_target, self.order = None, np.empty(0, np.int64)

    def ready(self, batch_size: int) -> bool:
        """Whether there is a transition."""
        return self.n_steps > 0

    def sample(self, batch_size: int, clock: Clock) -> Batch:
        """Return the next ``batch_size`` shuffled transitions. The clock is not used."""
        if self.td_target is None:
            everything = np.arange((len(self.steps["last"]) - 1) * self.n_envs)
            last = torch.from_numpy(self.steps["last"]).to(self.device)
            self.td_target = self.targets(self._batch(everything), last)
        drawn = []
        missing = batch_size
        while missing > 0:
            if len(self.order) == 0:
                real = np.flatnonzero(~self.steps["last"][:-1].reshape(-1))
                self.order = self.rng.permutation(real)
            drawn.append(self.order[:missing])
            self.order = self.order[missing:]
            missing -= len(drawn[-1])
        chosen = np.concatenate(drawn)
        targets = self.td_target.flatten(0, 1)[torch.from_numpy(chosen).to(self.device)]
        return self._batch(chosen, targets.unsqueeze(0))

    def _frames(self, t: np.ndarray, e: np.ndarray) -> np.ndarray:
        """[…, n_frames, N, *O] of steps ``t`` […] of environments ``e`` […], oldest first."""
        n_frames = self.spec.frame_stack
        frames = np.maximum(t[..., None] - np.arange(n_frames)[::-1], self.first[t, e][..., None])
        return self.steps["obs"][n_frames - 1 + frames, e[..., None]]

    def _batch(self, chosen: np.ndarray, td_target: Tensor | None = None) -> Batch:
        """Transitions t * E + e as windows with T = 1."""
        t, e = np.divmod(chosen, self.n_envs)
        both = np.stack([t, t + 1]), np.stack([e, e])
        last = self.steps["last"][both]
        last[0] = False  # no transition starts there, for the targets of all
        fields = {
            "obs": self._frames(*both),
            "avail_actions": self.steps["avail_actions"][both],
            "state": self.steps["state"][both],
            "last_action": self.last_action[both],
            "last": last,
            **{name: self.steps[name][t, e][None] for name in ("action", "reward", "terminated")},
            "mask": np.ones((1, len(chosen)), np.bool_),
            "weight": np.ones(len(chosen), np.float32),
            "index": chosen,
        }
        settings: Any = {"td_target": td_target, "burn_in": 0}
        if lazy_batch.is_packed_for(self.device):
            return BatchMemory(array_form(fields), self.device).fill(fields).batch(decode, settings)
        tensors: Any = {name: decode(name, torch.from_numpy(x)) for name, x in fields.items()}
        return Batch(**tensors, **settings)

    def state_dict(self) -> StateDict:
        """The steps held, their targets and the rest of the shuffled order."""
        targets = np.zeros(0) if self.td_target is None else self.td_target.cpu().numpy()
        return {
            "n_envs": self.n_envs,
            "rng": self.rng.bit_generator.state,
            **{f"steps.{name}": array for name, array in self.steps.items()},
            "last_action": self.last_action,
            "first": self.first,
            "td_target": targets,
            "order": self.order,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``.

        Raises:
            ValueError: the state has a different number of environments, or holds what no run has.
        """
        require_n_envs("buffer", state["n_envs"], self.n_envs)
        self._clear()
        if "steps.last" in state:
            self._load_steps(state)
        self.rng.bit_generator.state = state["rng"]

    def _load_steps(self, state: StateDict) -> None:
        """Load the steps of ``state``, and what was made of them."""

        def checked(name: str, dtype: str, shape: tuple[int, ...], *limits: float) -> np.ndarray:
            like = np.broadcast_to(np.zeros((), dtype), shape)
            return saved_array(f"the buffer's {name}", state[name], like, *limits)

        n_steps, spec, steps = max(len(state["steps.last"]), 1), self.spec, {}
        for name in STEP_FIELDS:
            shape, kinds = self._step_check.fields[name]
            kind = np.asarray(state[f"steps.{name}"]).dtype.name
            n = n_steps + (spec.frame_stack - 1 if name == "obs" else 0)
            steps[name] = checked(f"steps.{name}", kind if kind in kinds else kinds[0], (n, *shape))
        require_values(steps, spec.n_actions)
        every, last = (n_steps, self.n_envs), steps["last"][:-1].reshape(-1)
        first = checked("first", "int64", every, 1 - spec.frame_stack)
        require_range("the buffer's first", np.arange(n_steps)[:, None] - first, 0)
        actions = (*every, spec.n_agents), -1, spec.n_actions - 1
        last_action = checked("last_action", "int64", *actions)
        order = checked("order", "int64", (len(state["order"]),), 0, len(last) - 1)
        if last[order].any() or len(np.unique(order)) < len(order):
            raise ValueError("the buffer's order has final steps, or a transition twice")
        targets = np.asarray(state["td_target"])
        if targets.size:
            n_values = 1 if targets.shape[-1] == 1 else spec.n_agents
            shape = n_steps - 1, self.n_envs, n_values
            targets = checked("td_target", "float32", shape)
        self.steps, self.first, self.last_action, self.order = steps, first, last_action, order
        self.td_target = torch.from_numpy(targets).to(self.device) if targets.size else None


def decode(name: str, stored: Tensor) -> Tensor:
    """Decode a stored field [T+1, B, …], or frames [T+1, B, n_frames, …], for a batch."""
    if name == "obs":
        return join_frames(stored).to(torch.float32)
    return stored.to({"state": torch.float32, "avail_actions": torch.bool}.get(name, stored.dtype))
