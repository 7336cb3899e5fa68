"""The buffer of a run, and the refusal of buffers that do not fit its loss."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch

from rltrain.algo.learner import Learner
from rltrain.assemble.learner import need_independent
from rltrain.common.conformance import conform
from rltrain.common.seeding import BUFFER_STREAM, generator
from rltrain.config.schema import Settings
from rltrain.interfaces import Buffer, Loss
from rltrain.types import EnvSpec


def build_buffer(
    settings: Settings,
    spec: EnvSpec,
    learner: Learner,
    device: torch.device,
    key: tuple[int, ...] = (),
) -> Buffer:
    """The replay that this loss and these agents need; ``key`` tells apart the random streams of
    several.

    Raises:
        ValueError: it could never be sampled, or does not fit in memory.
    """
    loss: Loss = learner.loss
    targets = loss.targets
    buffer = settings.nodes["buffer"].build(
        spec=spec,
        n_envs=settings.hardware.n_envs,
        device=device,
        rng=generator(settings.run.seed, BUFFER_STREAM, *key),
        n_step=loss.n_step,
        hidden_dim=learner.online.agents.hidden_dim,
        total_env_steps=settings.run.total_env_steps,
        targets=partial(targets, learner.online) if targets is not None else None,
        acted_error=loss.acted_error,
    )
    buffer = cast(Buffer, conform(buffer, Buffer, "buffer"))
    if settings.nodes["buffer"].kwargs.get("initial_priority") == "td_error":
        need_acted_errors(settings, spec, learner)
    if targets is not None and buffer.targets is None:
        raise ValueError(
            f"{type(loss).__name__} computes targets for whole collects, which "
            f"buffer={settings.choices['buffer']} does not keep. Type buffer=on_policy."
        )
    trace = settings.nodes["algo.loss"].kwargs.get("trace")
    if trace is not None and settings.nodes["buffer"].kwargs.get("sequence_length") == 1:
        raise ValueError(
            f"algo.loss.trace={trace:g} sums rewards over windows, but "
            f"buffer={settings.choices['buffer']} has windows of one transition. Type "
            "buffer=sequence or buffer=episode, or algo.loss.trace=null."
        )
    if settings.hardware.target_cache is not None and not buffer.unique_index:
        raise ValueError(
            "hardware.target_cache keeps values of whole episodes. Type buffer=episode, or "
            "hardware.target_cache=null."
        )
    if buffer.per_agent:
        to_keep = "buffer.agents=lockstep"
        need_independent("buffer.agents=independent samples", learner.online, spec, to_keep)
    algo, capacity = settings.algo, buffer.plan().steps
    assert algo is not None
    buffer.check(algo.batch_size)
    if targets is not None and algo.learning_starts > 0:
        raise ValueError(
            f"algo.learning_starts={algo.learning_starts}: buffer=on_policy learns from every "
            "collect as it is made, and keeps none. Type algo.learning_starts=0."
        )
    if targets is not None and algo.reward_norm is not None:
        raise ValueError(
            f"algo.reward_norm={algo.reward_norm}: {type(loss).__name__} makes targets of the "
            "rewards as they were collected. Type algo.reward_norm=null."
        )
    if capacity is not None and algo.learning_starts > capacity:
        raise ValueError(
            f"algo.learning_starts={algo.learning_starts} stored steps can never be "
            f"reached: buffer.capacity={capacity}. Type algo.learning_starts={capacity}, or set "
            "buffer.capacity to more."
        )
    return buffer


def need_acted_errors(settings: Settings, spec: EnvSpec, learner: Learner) -> None:
    """ValueError unless the values of acting give the errors that the loss would give."""
    algo, to_keep = settings.algo, "buffer.initial_priority=max"
    assert algo is not None
    typed = "buffer.initial_priority=td_error"
    if learner.loss.acted_error is None:
        loss = settings.nodes["algo.loss"]
        keys = [key for key in ("trace", "munchausen") if loss.kwargs.get(key) is not None]
        reason = (
            f"with algo.loss.{keys[0]}={loss.kwargs[keys[0]]:g} targets need others as well"
            if keys
            else f"{loss.target.rpartition('.')[2]} (algo.loss) has other priorities"
        )
        raise ValueError(
            f"{typed} computes errors from the values of the actions taken and of the best ones, "
            f"and {reason}. Type {to_keep}."
        )
    need_independent(f"{typed} computes", learner.online, spec, to_keep)
    if algo.reward_norm is not None:
        raise ValueError(
            f"{typed} computes errors from rewards as they were collected, and algo.reward_norm="
            f"{algo.reward_norm} changes them. Type algo.reward_norm=null, or {to_keep}."
        )
