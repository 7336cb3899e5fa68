"""The buffer of a run, and the refusal of buffers that do not fit its loss."""

from __future__ import annotations

from functools import partial

import torch

from rltrain.algo.learner import Learner
from rltrain.common.conformance import conform
from rltrain.common.seeding import BUFFER_STREAM, generator
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.interfaces import Buffer
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
    loss, targets = learner.loss, learner.loss.targets
    built = settings.nodes["buffer"].build(
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
    buffer = conform(built, Buffer, "buffer")
    require_fit(
        "buffer",
        settings,
        loss=loss,
        loss_name=settings.nodes["algo.loss"].target.rpartition(".")[2],
        mixer=learner.online.mixer,
        spec=spec,
        replay=buffer,
        capacity=buffer.plan().steps,
    )
    buffer.check(settings.learning.batch_size)
    return buffer
