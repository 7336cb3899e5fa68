"""Whether environments of one run are objects of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.env.vector import SyncVectorEnv
from rltrain.interfaces import VectorEnv


def require_separate(vectors: Sequence[VectorEnv]) -> None:
    """Refuse environments that share an object, so that a step of one is a step of the other.

    Raises:
        ValueError: two of them are one.
    """
    made: dict[int, Any] = {}
    for vector in vectors:
        envs = vector.envs if isinstance(vector, SyncVectorEnv) else [vector]
        for env in envs:
            below: Any = getattr(env, "env", env) if env is not vector else env
            own = getattr(below, "unwrapped", below)
            if id(own) in made:
                name = type(own).__name__
                raise ValueError(
                    f"The environment's maker gave the same {name} at two calls: expected another "
                    "object each time, since all environments of training and tests are in "
                    f"episodes of their own. Hand over the class, or lambda: {name}(...), which "
                    "makes a new one at every call."
                )
            made[id(own)] = own
