"""What limited the speed of a run, and whether worker processes would change it."""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.config.schema import Settings
from rltrain.hardware.device import available_cores

PARTS = {"env": "environment", "acting": "acting", "sampling": "sampling", "learning": "learning"}
WORTH_IT = 3e-4
"""Seconds of an env step, acting included, from which on messages between processes cost less than
they save."""
ENOUGH = 1.15
"""A speed-up that is worth a suggestion."""


def bottleneck(settings: Settings, metrics: Mapping[str, float]) -> str | None:
    """Where the time of the last row of metrics went, and what would be faster; None before there
    is one, and where its row counts no env steps, as of a run that was resumed at its end.
    """
    if "time/env_share" not in metrics or not metrics.get("time/env_steps_per_s"):
        return None
    share = {part: metrics[f"time/{part}_share"] for part in PARTS}
    words = ", ".join(f"{name} {share[part]:.0%}" for part, name in PARTS.items())
    return f"Time: {words}. {advice(settings, share, metrics['time/env_steps_per_s'])}"


def advice(settings: Settings, share: Mapping[str, float], env_steps_per_s: float) -> str:
    """Whether more workers would pay.

    Args:
        share: of wall-clock time, by part.
    """
    cores, workers = available_cores(), settings.workers
    collecting, n_envs = share["env"] + share["acting"], settings.hardware.n_envs
    learning = share["sampling"] + share["learning"]
    if workers is None:
        most = min(cores, n_envs)
        gain = 1 / (1 - collecting + collecting / most)
        if gain < ENOUGH:
            return "Worker processes would not pay: too little of it is collecting."
        if collecting / env_steps_per_s < WORTH_IT:
            return "Worker processes would not pay: an env step is shorter than a message to them."
        return (
            f"Worker processes would pay: hardware=process hardware.n_workers={most}, at most "
            f"{gain:.1f} times as fast."
        )
    gain = 1 / (1 - min(collecting, learning))
    if not workers.overlap and gain >= ENOUGH:
        return (
            "hardware.overlap=true would collect and learn at the same time, at most "
            f"{gain:.1f} times as fast."
        )
    if collecting > 0.5 and workers.n_workers < n_envs:
        if workers.n_workers < cores:
            return f"More workers would pay: hardware.n_workers={min(cores, n_envs)}."
        return (
            "The environments limit the speed: more workers pay if they wait rather than compute, "
            "since there are no free cores."
        )
    return "More workers would not pay: collecting does not limit the speed."
