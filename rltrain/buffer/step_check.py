"""Check of collected steps, made before a buffer changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mode

import numpy as np
import torch

from rltrain.buffer.fields import Fields, PackedObs
from rltrain.common.number_types import is_finite, require_range
from rltrain.errors import EnvError, UsageError
from rltrain.types import EnvSpec, Steps

Signature = list[tuple[tuple[int, ...], np.dtype] | None]
HALF_MAX = float(np.finfo(np.float16).max)


class StepCheck:
    """Refuse steps that do not fit the environments.

    Shapes and types are checked only when they differ from those of the last accepted steps; of
    the data only the range of the actions (and of numbers stored as float16), whether all numbers
    are finite, and whether every agent can act.

    Args:
        spec: sizes.
        n_envs: environments, E.
        fields: what is stored of a time step.
    """

    def __init__(self, spec: EnvSpec, n_envs: int, fields: Fields) -> None:
        self.n_actions = spec.n_actions
        collected = {"avail_actions": ("uint8", "bool"), "action": ("int64",)}
        collected["state"] = ("float32",)
        # shape behind T, and types that are accepted
        self.fields: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
            name: ((n_envs, *shape), collected.get(name, (dtype.name,)))
            for name, (shape, dtype) in fields.items()
        }
        self.fields["obs"] = (n_envs, spec.n_agents, *spec.obs_shape), (spec.obs_dtype,)
        self.fields["lost"] = (n_envs,), ("bool",)
        self.numbers = ["reward", *(["state"] if spec.state_dim else [])]
        self.numbers += [] if spec.obs_dtype == "uint8" else ["obs"]
        self.half = self.numbers[1:] if fields["state"][1] == np.float16 else []
        self.accepted: Signature = []

    def __call__(self, steps: Steps) -> None:
        """Raise unless ``steps`` fit.

        Raises:
            ValueError: the first field that does not, what was expected and what it is.
            EnvError: the environments gave a number that is not finite, or no available action.
            UsageError: numbers too large for ``precision=float16``.
        """
        arrays = [getattr(steps, name) for name in self.fields]
        signature = [(a.shape, a.dtype) if isinstance(a, np.ndarray) else None for a in arrays]
        if signature != self.accepted:
            self._require_arrays(steps)
            self.accepted = signature
        if steps.action.view(np.uint64).max(initial=0) >= self.n_actions:  # or below 0
            self._require_actions(steps)
        for name in self.numbers:
            if not is_finite(getattr(steps, name)):
                _require_finite(name, steps)
        available = steps.avail_actions
        if not available.all() and not available.any(-1).all():
            _require_available(steps)
        for name in self.half:
            _require_half(name, getattr(steps, name))

    def _require_arrays(self, steps: Steps) -> None:
        arrays = {name: getattr(steps, name) for name in self.fields}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(
                    f"Steps.{name} should be a NumPy array, got {type(array).__name__}."
                )
        # T of most fields, so that a single wrong one is named
        n_steps = mode([len(a) if a.ndim else 0 for name, a in arrays.items() if name != "lost"])
        if n_steps == 0:
            raise ValueError("Steps.last should have at least one time step, got none.")
        for name, (behind, types) in self.fields.items():
            shape = behind if name == "lost" else (n_steps, *behind)
            array = arrays[name]
            if array.shape != shape or array.dtype.name not in types:
                raise ValueError(
                    f"Steps.{name} should be {' or '.join(types)} of shape {shape}, got "
                    f"{array.dtype.name} of shape {array.shape}."
                )

    def _require_actions(self, steps: Steps) -> None:
        """Refuse actions out of range; those of final steps mean nothing."""
        wrong = ((steps.action < 0) | (steps.action >= self.n_actions)) & ~steps.last[:, :, None]
        for t, e, agent in np.argwhere(wrong)[:1].tolist():
            raise ValueError(
                f"Steps.action should be from 0 to {self.n_actions - 1}, got "
                f"{steps.action[t, e, agent]} at time step {t} of environment {e}, agent {agent}."
            )


def require_values(
    fields: Mapping[str, np.ndarray], n_actions: int, packed: PackedObs | None = None
) -> None:
    """Refuse saved steps [n, …] with what a ``StepCheck`` does not let pass.

    Args:
        packed: how observations are stored, if they are packed.

    Raises:
        ValueError: the first field, and the number.
    """
    last, obs = fields["last"].reshape(-1), fields["obs"]
    if packed is not None:
        whole = np.array(obs).reshape(len(last), -1, packed.n_bytes)
        obs = packed.unpack(torch.from_numpy(whole)).numpy()
    for name, values in {**fields, "obs": obs}.items():
        if name in ("obs", "state", "reward", "hidden"):
            require_range(f"the buffer's {name}", values)
    require_range("the buffer's action", fields["action"], 0, n_actions - 1)
    available = fields["avail_actions"].reshape(len(last), -1, n_actions).any(-1)
    if not (available | last[:, None]).all():
        raise ValueError("the buffer's avail_actions has steps without an available action")


def require_total(n_steps: int, n_saved: int) -> None:
    """Refuse a state that counts more or fewer steps than it has.

    Raises:
        ValueError: states both numbers.
    """
    if n_steps != n_saved:
        raise ValueError(f"The saved buffer counts {n_steps} steps and has {n_saved}.")


def _require_finite(name: str, steps: Steps) -> None:
    """Refuse numbers that are not finite; the rewards of final steps mean nothing."""
    values = getattr(steps, name)
    wrong = ~np.isfinite(values)
    if name == "reward":
        wrong &= ~steps.last[:, :, None]
    for t, e, *rest in np.argwhere(wrong)[:1].tolist():
        agent = f", agent {rest[0]}" if values.shape[2] > 1 and name != "state" else ""
        raise EnvError(
            f"Environment {e}{agent} has {values[t, e][tuple(rest)]} as {name} (time step {t} of "
            "the last ones): expected finite numbers, from the environment and from callbacks that "
            "change them (on_trajectory, on_collect)."
        )


def _require_available(steps: Steps) -> None:
    """Refuse agents that no action is available to; none is chosen in final steps."""
    wrong = ~steps.avail_actions.any(-1) & ~steps.last[:, :, None]
    for t, e, agent in np.argwhere(wrong)[:1].tolist():
        raise EnvError(
            f"Environment {e} gave agent {agent} no available action (time step {t} of the last "
            "ones): expected at least one. An agent that can do nothing needs an action for that."
        )


def _require_half(name: str, values: np.ndarray) -> None:
    """Refuse numbers that 16 bits would turn into infinity."""
    size = float(np.abs(values).max(initial=0))
    if size > HALF_MAX:
        raise UsageError(
            f"buffer.precision=float16 holds numbers up to {HALF_MAX:,.0f}, but {name} has one of "
            f"the size {size:,.0f}. Type buffer.precision=float32, or scale what the environment "
            "gives."
        )
