"""Checks of buffer sizes and saved states; messages state what to type."""

from __future__ import annotations

from rich.filesize import decimal

from rltrain.buffer.disk_store import Place
from rltrain.buffer.store import BLOCK
from rltrain.common.machine.time_and_memory import SHARE


def require_bytes(needed: int, cap: int, capacity: int, n_envs: int, step_bytes: int) -> None:
    """Refuse ``capacity`` steps that need more bytes than may be used.

    Raises:
        ValueError: states both numbers.
    """
    if needed <= cap:
        return
    fits = (cap // step_bytes // n_envs - 3 * BLOCK) * n_envs
    smaller = f"set buffer.capacity={fits} or less, or" if fits > 0 else "set"
    raise ValueError(
        f"The buffer needs {decimal(needed, precision=2)} for buffer.capacity={capacity} steps "
        f"({step_bytes} bytes each), but may use {decimal(cap, precision=2)}: "
        f"{smaller} buffer.max_bytes={needed} or more."
    )


def require_free(needed: int, capacity: int, place: Place) -> None:
    """Refuse a buffer of ``needed`` bytes if there is no room.

    Raises:
        ValueError: states the required and free bytes and what to type.
    """
    if needed <= place.free:
        return
    where = "of memory are free here" if place.path is None else f"are free for {place.path}"
    share = SHARE * place.free / needed
    raise ValueError(
        f"The buffer may grow to {decimal(needed, precision=2)} (buffer.capacity={capacity}), but "
        f"{decimal(place.free, precision=2)} {where}: set "
        f"buffer.capacity={max(int(share * capacity), 1)} or less, or "
        f"buffer.max_bytes={int(SHARE * place.free)}, or buffer.precision=float16."
    )


def require_total(n_steps: int, n_saved: int) -> None:
    """Refuse a state that counts more or fewer steps than it has.

    Raises:
        ValueError: states both numbers.
    """
    if n_steps != n_saved:
        raise ValueError(f"The saved buffer counts {n_steps} steps and has {n_saved}.")
