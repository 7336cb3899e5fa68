"""The trainer of ``dataset.read``: a dataset in place of environments to act in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.assemble.build_learner import build_learner
from rltrain.assemble.build_trainer import (
    build_buffer,
    build_callbacks,
    obs_statistics,
    shared_parts,
    video_recorder,
)
from rltrain.assemble.env import closed_unless_built, ordered_as, prepare_machine
from rltrain.assemble.evaluation import build_test_env
from rltrain.callback import Callback
from rltrain.common.files import absolute_path
from rltrain.common.seeding import DATASET_STREAM, NOISE_STREAM, generator, seed_key
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.interfaces import Buffer
from rltrain.logger.loggers import Loggers
from rltrain.offline.dataset import Dataset, Reader, open_dataset
from rltrain.offline.estimate import Estimate
from rltrain.offline.offline_trainer import OfflineTrainer
from rltrain.offline.shards import read_index

log = logging.getLogger("rltrain")


@closed_unless_built()
def build_offline_trainer(
    settings: Settings, run_dir: Path, loggers: Loggers, callbacks: Sequence[Callback] = ()
) -> OfflineTrainer:
    """A trainer that learns from the dataset of ``dataset.read`` and plays only in tests.

    Raises:
        ValueError: parts that cannot learn from others' experience, or do not fit.
        UsageError: no dataset, or one of another environment.
        DatasetError: a damaged one.
    """
    run, algo = settings.run, settings.learning
    assert run.dataset.read is not None, "dataset.read is not set"
    require_fit("dataset", settings)
    device = prepare_machine(settings)
    torch.manual_seed(seed_key(run.seed, NOISE_STREAM))  # noisy layers and quantile levels
    folder = absolute_path(run.dataset.read)
    if not settings.agent_order:
        settings = ordered_as(settings, read_index(folder)["spec"])
    test_env = build_test_env(settings)
    spec = test_env.spec
    settings = ordered_as(settings, spec.record)
    dataset = open_dataset(folder, spec)
    held_out = dataset.held_out(run.dataset.held_out)
    learner = build_learner(settings, spec, device)
    # one environment: the pieces of a dataset follow each other
    single = replace(settings, hardware=replace(settings.hardware, n_envs=1))
    buffer = build_buffer(single, spec, learner, device, run_dir)
    require_readable(settings, dataset, held_out, buffer)
    chosen = np.flatnonzero(~held_out)
    statistics = obs_statistics(learner) + video_recorder(settings, test_env, loggers)
    if held_out.any():
        statistics.append(build_estimate(settings, dataset, held_out))
    elif run.dataset.held_out > 0:
        log.warning(
            "dataset.held_out=%s of the %d whole episodes in %s is less than one: nothing is held "
            "out, and no importance-sampling estimates are made",
            run.dataset.held_out,
            int(dataset.whole.sum()),
            dataset.folder,
        )
    no_exploration = SimpleNamespace(metrics=lambda clock: {})
    watchers = build_callbacks(settings, loggers, no_exploration, statistics, callbacks)
    n_envs = settings.hardware.n_envs
    return OfflineTrainer(
        reader=Reader(
            dataset=dataset,
            chosen=chosen,
            rng=generator(run.seed, DATASET_STREAM),
            reward_clip=settings.plain["env"].get("reward_clip"),
        ),
        env_steps_per_iteration=algo.time_steps(n_envs) * n_envs,
        buffer=buffer,
        run_dir=run_dir,
        **shared_parts(settings, spec, learner, FixedEpsilon(epsilon=0), watchers, test_env),
    )


def build_estimate(settings: Settings, dataset: Dataset, held_out: np.ndarray) -> Estimate:
    """Off-policy estimates of the policy that tests play.

    Raises:
        ValueError: the dataset has no action probabilities.
    """
    if not dataset.knows_probabilities:
        raise ValueError(
            f"The dataset {dataset.folder} has no action probabilities (it was "
            "recorded with noisy networks, drawn quantile levels or parameter noise), so nothing "
            "can be estimated from it. Type dataset.held_out=0 to learn from it anyway."
        )
    return Estimate(
        dataset=dataset,
        held_out=np.flatnonzero(held_out),
        exploration=FixedEpsilon(epsilon=settings.run.test.epsilon),
        gamma=settings.nodes["algo.loss"].kwargs["gamma"],
    )


def require_readable(
    settings: Settings, dataset: Dataset, held_out: np.ndarray, buffer: Buffer
) -> None:
    """Refuse a method or buffer that cannot learn from a dataset.

    Raises:
        ValueError: what does not fit, and what to type.
    """
    require_fit("dataset", settings, replay=buffer)
    algo, n_left = settings.learning, int((~held_out).sum())
    counts_episodes = buffer.plan().steps is None
    if n_left == 0 or (counts_episodes and n_left < algo.batch_size):
        raise ValueError(
            f"The dataset {dataset.folder} has {n_left} episodes to learn from besides "
            f"{int(held_out.sum())} held out, one batch needs "
            f"{algo.batch_size if counts_episodes else 1}: lower dataset.held_out or "
            "algo.batch_size."
        )
