"""The trainer: environments, buffer and learner, joined with the callbacks of a run."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from rltrain import kernels
from rltrain.algo.actor import Actor
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.learner import Learner
from rltrain.algo.policy import Policy
from rltrain.assemble.buffer import build_buffer
from rltrain.assemble.build_greedy_policy import obs_view
from rltrain.assemble.build_learner import about, build_learner
from rltrain.assemble.build_policy import accelerate, build_exploration
from rltrain.assemble.callbacks import build_callbacks, obs_statistics, video_recorder
from rltrain.assemble.env import build_env, need_same_sizes, ordered_as, prepare_machine, recorded
from rltrain.assemble.evaluation import build_test_env, build_tests
from rltrain.callback import Callback
from rltrain.common.imports import locate
from rltrain.common.seeding import (
    ACTOR_STREAM,
    ENV_STREAM,
    NOISE_STREAM,
    POLICY_STREAM,
    EpisodeSeeder,
    generator,
    seed_key,
)
from rltrain.config.schema import Settings
from rltrain.hardware.rollout import Rollout
from rltrain.interfaces import Buffer, Rollouts, VectorEnv
from rltrain.logger.loggers import Loggers
from rltrain.offline.dataset_recorder import DatasetRecorder, RecordedEnv
from rltrain.periodic_tests import TestFunction
from rltrain.trainer import Trainer
from rltrain.types import EnvSpec


def build_trainer(
    settings: Settings, run_dir: Path, loggers: Loggers, callbacks: Sequence[Callback] = ()
) -> Trainer:
    """A trainer whose parts fit each other.

    Raises:
        ValueError: parts that do not fit, such as a mixer without a team reward.
    """
    run, algo = settings.run, settings.algo
    assert algo is not None, "check() refuses to train what does not learn"
    device = prepare_machine(settings)
    torch.manual_seed(seed_key(run.seed, NOISE_STREAM))  # noisy layers and quantile levels
    n_envs = settings.hardware.n_envs if settings.workers is None else 1  # for its sizes
    env = build_env(settings, n_envs, training=True)
    settings = ordered_as(settings, env.spec.record)
    test_env = build_test_env(settings)
    spec = env.spec
    need_same_sizes(spec, test_env.spec)
    learner = build_learner(settings, spec, device)
    exploration = build_exploration(settings)
    buffer = build_buffer(settings, spec, learner, device)
    rollout: Rollouts
    first = obs_statistics(learner)
    if settings.workers is None:
        rollout = build_rollout(settings, env, learner, exploration, buffer)
        if run.dataset.write is not None:
            first.append(DatasetRecorder(cast(RecordedEnv, rollout.env).writer))
    else:
        from rltrain.assemble.workers import build_process_rollout

        rollout = build_process_rollout(settings, env, learner, buffer)
    first += video_recorder(settings, test_env, loggers)
    watchers = build_callbacks(settings, loggers, exploration, first, callbacks)
    trainer = Trainer(
        rollout=rollout,
        test_rollout=build_tests(settings, learner.online.agents, test_env, watchers),
        buffer=buffer,
        learner=learner,
        actor=build_actor(settings, learner, env, exploration),
        callbacks=watchers,
        run_dir=run_dir,
        **trainer_settings(settings, spec),
    )
    if kernels.chosen(settings.hardware.kernels) == "compiled":
        kernels.compile_learning(trainer, settings.hardware.kernels == "compiled")
    return trainer


def build_rollout(
    settings: Settings, env: VectorEnv, learner: Learner, exploration: Exploration, buffer: Buffer
) -> Rollout:
    """Experience for learning, collected in this process."""
    seed = settings.run.seed
    policy = Policy(
        agents=learner.online.agents,
        exploration=exploration,
        spec=env.spec,
        n_envs=env.n_envs,
        rng=generator(seed, POLICY_STREAM),
    )
    accelerate(settings, policy)
    if settings.run.dataset.write is not None:
        env = recorded(settings, env, policy)
    return Rollout(
        env=env,
        policy=policy,
        seeds=EpisodeSeeder(seed, ENV_STREAM),
        keeps_hidden=buffer.keeps_hidden,
        keeps_values=buffer.keeps_values,
    )


def build_actor(
    settings: Settings, learner: Learner, env: VectorEnv, exploration: Exploration
) -> Actor:
    """Build the actor, which answers single observations."""
    return Actor(
        agents=learner.online.agents,
        exploration=exploration,
        spec=env.spec,
        rng=generator(settings.run.seed, ACTOR_STREAM),
        view=obs_view(env.spec),
    )


def build_test_function(settings: Settings) -> TestFunction | None:
    """Build the function that ``test.function`` names, with its keywords, or the object."""
    node = settings.nodes.get("test.function")
    if node is None:
        return None
    call: Any = locate(node.target)
    found = call(**node.kwargs) if inspect.isclass(call) else partial(call, **node.kwargs)
    if not callable(found):
        raise ValueError(
            f"test.function={node.target} cannot be called: expected a function of (trainer, "
            "episodes), or a class whose objects are called so."
        )
    return cast(TestFunction, found)


def trainer_settings(settings: Settings, spec: EnvSpec) -> dict[str, Any]:
    """The numbers of a trainer's loop, and its ``about``."""
    run, algo = settings.run, settings.algo
    assert algo is not None, "check() refuses to train what does not learn"
    return {
        "total_env_steps": run.total_env_steps,
        "steps_per_collect": algo.time_steps(settings.hardware.n_envs),
        "batch_size": algo.batch_size,
        "updates_per_episode": algo.updates_per_episode,
        "updates_per_env_step": algo.updates_per_env_step,
        "learning_starts": algo.learning_starts,
        "log_interval": run.log.interval,
        "keep_last": run.save.keep_last,
        "test_episodes": run.test.episodes,
        "test_seed": run.seed,
        "test_function": build_test_function(settings),
        "about": about(settings, spec),
    }
