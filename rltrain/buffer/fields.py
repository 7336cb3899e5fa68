"""What is stored of a slot: names, shapes and types. To store one more field, add a line to
``fields_of``.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from rltrain.types import EnvSpec, Steps

Storage = Literal["float32", "float16"]


def fields_of(
    spec: EnvSpec, storage: Storage, hidden_dim: int = 0
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and stored type of every field of a slot; ``hidden`` only where H is not 0."""
    n_agents, real = spec.n_agents, np.dtype(storage)
    action = np.dtype(np.uint8 if spec.n_actions <= 256 else np.int16)
    fields = {
        "obs": (
            (n_agents, *spec.obs_shape),
            np.dtype(np.uint8) if spec.obs_dtype == "uint8" else real,
        ),
        "avail_actions": ((n_agents, spec.n_actions), np.dtype(np.bool_)),
        "state": ((spec.state_dim,), real),
        "last": ((), np.dtype(np.bool_)),
        "action": ((n_agents,), action),
        "reward": ((spec.n_rewards,), np.dtype(np.float32)),
        "terminated": ((), np.dtype(np.bool_)),
    }
    if hidden_dim:
        fields["hidden"] = ((n_agents, hidden_dim), np.dtype(np.float32))
    return fields


def bytes_per_slot(spec: EnvSpec, storage: Storage, hidden_dim: int = 0) -> int:
    """Bytes of one slot, known before anything is allocated."""
    fields = fields_of(spec, storage, hidden_dim)
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in fields.values())


def fields_to_store(steps: Steps) -> dict[str, np.ndarray]:
    """The fields [T, E, …] of a store; a final slot holds no transition."""
    real = ~steps.last
    real_of = real[:, :, None]
    return {
        "obs": steps.obs,
        "avail_actions": steps.avail_actions,
        "state": steps.state,
        "last": steps.last,
        "action": np.where(real_of, steps.action, 0),
        "reward": np.where(real_of, steps.reward, 0),
        "terminated": steps.terminated & real,
    }
