"""Saved steps of a store, and refusals of states that do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rltrain.buffer.store import Store
from rltrain.types import Pieces

PIECE = 4096
"""Steps that a checkpoint reads at once."""


def require_n_envs(state: Mapping[str, Any], n_envs: int) -> None:
    """Refuse the state of another number of environments.

    Raises:
        ValueError: with both numbers and what to type.
    """
    if state["n_envs"] != n_envs:
        raise ValueError(
            f"The saved buffer was filled by {state['n_envs']} environments, this run has "
            f"{n_envs}: set hardware.n_envs={state['n_envs']}."
        )


def require_equal(what: str, saved: int, here: int, keys: str) -> None:
    """Refuse the state of a buffer with other settings.

    Raises:
        ValueError: with both numbers and the keys to restore.
    """
    if saved != here:
        raise ValueError(
            f"The saved buffer has {saved} {what}, this one {here}: use the {keys} that it was "
            "written with."
        )


def require_windows(
    state: Mapping[str, Any], store: Store, steps_per_env: int, length: int, n_priorities: int
) -> None:
    """Refuse the state of a step buffer that does not fit another one.

    Raises:
        ValueError: what differs, and what to type.
    """
    require_n_envs(state, store.n_envs)
    window = "algo.loss.n_step, buffer.sequence_length and buffer.burn_in"
    items, sampler = len(state.get("priority", ())), "buffer.sampler and buffer.agents"
    same, steps = require_equal, state["steps_per_env"]
    same("steps per environment", steps, steps_per_env, "buffer.capacity")
    same("transitions in a window", state["length"], length, window)
    same("priorities", items, n_priorities, sampler)
    require_fields(state, store)


def saved_pieces(store: Store, rows: np.ndarray) -> dict[str, Pieces]:
    """Every field at ``rows``, read from the store only when the pieces are taken."""

    def field(name: str) -> Pieces:
        def pieces() -> Iterator[np.ndarray]:
            for i in range(0, len(rows), PIECE):
                yield store.read(name, rows[i : i + PIECE])

        return Pieces((len(rows), *store.shapes[name]), store.arrays[name].dtype, pieces)

    return {f"steps.{name}": field(name) for name in store.arrays}


def require_fields(state: Mapping[str, Any], store: Store) -> None:
    """Refuse saved steps of other shapes or types than the store's.

    Raises:
        ValueError: the first field that does not fit.
    """
    for name, array in store.arrays.items():
        shape, saved = store.shapes[name], state[f"steps.{name}"]
        if saved.shape[1:] != shape or saved.dtype != array.dtype:
            raise ValueError(
                f"The saved buffer does not fit: '{name}' of a step should be {array.dtype} "
                f"{shape}, got {saved.dtype} {saved.shape[1:]}. Use the env and the "
                "buffer.precision that it was written with."
            )


def append_saved(store: Store, e: int, state: Mapping[str, Any], first: int, n_steps: int) -> None:
    """Append the saved steps ``first … first + n_steps`` to environment ``e``."""
    saved = slice(first, first + n_steps)
    fields = {name: state[f"steps.{name}"][saved, None] for name in store.arrays}
    store.append(fields, np.array([e]))
