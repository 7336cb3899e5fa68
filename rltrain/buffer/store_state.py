"""What all replays save alike: slots piece by piece, the stream that draws, the copies that filled
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rltrain.buffer.store import Store
from rltrain.types import Pieces

PIECE = 4096
"""Slots that a checkpoint reads at once."""


def state_of(rng: np.random.Generator, n_envs: int) -> dict[str, int]:
    """E and the state of a PCG64 generator, in whole numbers."""
    generator: Mapping[str, Any] = rng.bit_generator.state
    return {
        "n_envs": n_envs,
        "rng.state": int(generator["state"]["state"]),
        "rng.inc": int(generator["state"]["inc"]),
        "rng.has_uint32": int(generator["has_uint32"]),
        "rng.uinteger": int(generator["uinteger"]),
    }


def restore(rng: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Let a generator go on from what ``state_of`` said."""
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state["rng.state"], "inc": state["rng.inc"]},
        "has_uint32": state["rng.has_uint32"],
        "uinteger": state["rng.uinteger"],
    }


def require_copies(state: Mapping[str, Any], n_envs: int) -> None:
    """Refuse what another number of copies has filled.

    Raises:
        ValueError: it is another number.
    """
    if state["n_envs"] != n_envs:
        raise ValueError(
            f"The saved replay was filled by {state['n_envs']} environment copies, this run has "
            f"{n_envs}: set hardware.n_envs={state['n_envs']}."
        )


def slots_at(store: Store, rows: np.ndarray) -> dict[str, Pieces]:
    """Every field at ``rows``, read from the store when it is asked for."""

    def field(name: str) -> Pieces:
        def pieces() -> Iterator[np.ndarray]:
            for i in range(0, len(rows), PIECE):
                yield store.read(name, rows[i : i + PIECE])

        return Pieces((len(rows), *store.shapes[name]), store.arrays[name].dtype, pieces)

    return {f"slots.{name}": field(name) for name in store.arrays}


def require_slots(state: Mapping[str, Any], store: Store) -> None:
    """Refuse saved slots of other shapes or types than the store's.

    Raises:
        ValueError: the first field that does not fit.
    """
    for name, array in store.arrays.items():
        shape, found = store.shapes[name], state[f"slots.{name}"]
        if found.shape[1:] != shape or found.dtype != array.dtype:
            raise ValueError(
                f"The saved replay does not fit: '{name}' of a step should be {array.dtype} "
                f"{shape}, got {found.dtype} {found.shape[1:]}. Use the env and the "
                "buffer.storage that it was written with."
            )


def put_slots(store: Store, lane: int, state: Mapping[str, Any], first: int, n_slots: int) -> None:
    """Append saved slots ``first … first + n_slots`` to a lane."""
    rows = store.extend(lane, n_slots)
    store.write(
        rows, {name: state[f"slots.{name}"][first : first + n_slots] for name in store.arrays}
    )
