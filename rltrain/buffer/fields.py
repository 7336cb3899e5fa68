"""Fields of a stored time step: names, shapes, types. To add one, extend ``step_fields``."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rltrain.buffer.packed_obs import PackedObs, Precision
from rltrain.types import EnvSpec

TRANSITION = ("action", "reward", "terminated")
"""Fields of a transition: zero at final steps, which have none."""
Fields = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""Shape and stored type of the fields of a time step, by name."""


def step_fields(
    spec: EnvSpec, precision: Precision, hidden_dim: int = 0, keeps_values: bool = False
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and stored type of every field of a time step; ``hidden`` only if H is not 0,
    ``values`` only if kept.
    """
    n_agents, real = spec.n_agents, np.dtype(precision)
    sizes = ((1 << 8, np.uint8), (1 << 15, np.int16), (1 << 31, np.int32))
    action = np.dtype(next(kind for most, kind in sizes if spec.n_actions <= most))
    obs = (n_agents, *spec.obs_shape), np.dtype(np.uint8 if spec.obs_dtype == "uint8" else real)
    if spec.obs_bytes:
        obs = (n_agents, PackedObs(spec, precision).n_bytes), np.dtype(np.uint8)
    fields = {
        "obs": obs,
        "avail_actions": ((n_agents, spec.n_actions), np.dtype(np.bool_)),
        "state": ((spec.state_dim,), real),
        "last": ((), np.dtype(np.bool_)),
        "action": ((n_agents,), action),
        "reward": ((spec.n_rewards,), np.dtype(np.float32)),
        "terminated": ((), np.dtype(np.bool_)),
    }
    if hidden_dim:
        fields["hidden"] = ((n_agents, hidden_dim), np.dtype(np.float32))
    if keeps_values:
        fields["values"] = ((n_agents, 2), np.dtype(np.float32))
    return fields


def n_bytes(fields: Fields) -> int:
    """Bytes of one time step with these fields."""
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in fields.values())
