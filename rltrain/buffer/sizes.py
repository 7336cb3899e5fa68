"""Checks of buffer sizes and saved states; messages state what to type."""

from __future__ import annotations

from rich.filesize import decimal

from rltrain.buffer.disk_store import Place
from rltrain.buffer.store import BLOCK
from rltrain.common.machine.free_memory import SHARE
from rltrain.errors import require_n_envs
from rltrain.types import EnvSpec, StateDict


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


def require_window(length: int, least: int, capacity: int, n_envs: int) -> None:
    """Refuse a ``capacity`` too small for one window per environment; ``least`` steps suffice.

    Raises:
        ValueError: states a sufficient capacity.
    """
    if -(-capacity // n_envs) < least:
        raise ValueError(
            f"buffer.capacity={capacity} steps over {n_envs} environments cannot hold one window "
            f"of {length} transitions in each: set buffer.capacity={least * n_envs} or more."
        )


def require_first_blocks(n_blocks: int, cap: int, n_envs: int, step_bytes: int) -> None:
    """Refuse fewer than two blocks for each environment.

    Raises:
        ValueError: states the sufficient bytes.
    """
    if n_blocks < 2 * n_envs:
        raise ValueError(
            f"buffer.max_bytes={cap} is too little: {n_envs} environments need "
            f"{2 * n_envs * BLOCK * step_bytes} bytes to begin with. Set buffer.max_bytes to at "
            "least that."
        )


def require_batch(
    batch_size: int, capacity: int, n_blocks: int, spec: EnvSpec, n_envs: int, step_bytes: int
) -> None:
    """Refuse an episode buffer that could never sample a batch of full-length episodes.

    Raises:
        ValueError: states the required and available sizes.
    """
    if capacity < batch_size:
        raise ValueError(
            f"buffer.capacity={capacity} episodes cannot hold one batch of "
            f"algo.batch_size={batch_size} episodes: set buffer.capacity={batch_size} or more."
        )
    if spec.max_steps is None:
        return
    needed, block_bytes = episode_blocks(batch_size, spec.max_steps, n_envs), BLOCK * step_bytes
    if n_blocks < needed:
        raise ValueError(
            f"The buffer may use {decimal(n_blocks * block_bytes, precision=2)}, but one batch of "
            f"{batch_size} episodes of {spec.max_steps} steps, besides the {n_envs} open episodes, "
            f"needs {decimal(needed * block_bytes, precision=2)} ({step_bytes} bytes a step): set "
            f"buffer.max_bytes={needed * block_bytes}, or buffer.precision=float16, or a smaller "
            "algo.batch_size."
        )


def episode_blocks(n_episodes: int, max_steps: int, n_envs: int) -> int:
    """Blocks that always hold ``n_episodes`` full-length episodes besides the open ones."""
    n_steps = (n_episodes + n_envs) * (max_steps + 1)
    return -(-n_steps // BLOCK) + 3 * n_envs


def require_windows(
    state: StateDict, n_envs: int, steps_per_env: int, length: int, n_priorities: int
) -> None:
    """Refuse the state of a step buffer that does not fit this one.

    Raises:
        ValueError: states the difference and what to type.
    """
    require_n_envs("buffer", state["n_envs"], n_envs)
    window = "algo.loss.n_step, buffer.sequence_length and buffer.burn_in"
    items, sampler = len(state.get("priority", ())), "buffer.sampler and buffer.agents"
    for what, saved, here, keys in (
        ("steps per environment", state["steps_per_env"], steps_per_env, "buffer.capacity"),
        ("transitions in a window", state["length"], length, window),
        ("priorities", items, n_priorities, sampler),
    ):
        if saved != here:
            raise ValueError(
                f"The saved buffer has {saved} {what}, this one {here}: use the {keys} that it was "
                "written with."
            )


def require_total(n_steps: int, n_saved: int) -> None:
    """Refuse a state that counts more or fewer steps than it has.

    Raises:
        ValueError: states both numbers.
    """
    if n_steps != n_saved:
        raise ValueError(f"The saved buffer counts {n_steps} steps and has {n_saved}.")
