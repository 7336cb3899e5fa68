"""The trainer: environments, buffer and learner, joined with the callbacks and loggers of a run."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rltrain import callback, kernels
from rltrain.algo.actor import Actor
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.learner import Learner
from rltrain.assemble.build_learner import about, build_learner
from rltrain.assemble.env import build_env, closed_unless_built, ordered_as, prepare_machine
from rltrain.assemble.evaluation import build_test_env, build_tests
from rltrain.assemble.rollouts import build_exploration, build_rollout, obs_view
from rltrain.callback import Callback, Callbacks, Health, ReplacedCode, SaveSnapshots
from rltrain.common.checkpoint.opponent_files import SELF
from rltrain.common.conformance import conform, require_savable
from rltrain.common.imports import locate
from rltrain.common.seeding import ACTOR_STREAM, BUFFER_STREAM, NOISE_STREAM, generator, seed_key
from rltrain.common.spec_record import require_alike
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.env.vector import require_separate
from rltrain.errors import usage_errors
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.rollout_opponents import SelfPlay
from rltrain.interfaces import Buffer, Rollouts, VectorEnv
from rltrain.logger.loggers import Logger, Loggers
from rltrain.offline.dataset_recorder import DatasetRecorder, RecordedEnv
from rltrain.periodic_tests import TestFunction
from rltrain.trainer import Trainer
from rltrain.types import EnvSpec, Plan


@closed_unless_built()
def build_trainer(
    settings: Settings, run_dir: Path, loggers: Loggers, callbacks: Sequence[Callback] = ()
) -> Trainer:
    """A trainer whose parts fit each other; with hardware=ddp that of one of several processes.

    Raises:
        ValueError: parts that do not fit, such as a mixer without a team reward.
    """
    device, exploration = prepare_machine(settings), build_exploration(settings)
    ranks, own = None, settings
    kind: type[Rollout] = Rollout
    if settings.ranks is not None:
        from rltrain.assemble import build_ranks as ddp
        from rltrain.rank_trainer import RankTrainer

        ranks = ddp.build_ranks(settings, device)
        own, kind = ddp.rank_settings(settings, ranks), ddp.RankRollout
    key = () if ranks is None else (ranks.rank,)  # every rank draws its own numbers
    torch.manual_seed(seed_key(own.run.seed, NOISE_STREAM, *key))  # noisy layers, quantile levels
    n_envs = own.hardware.n_envs if own.workers is None else 1  # for its sizes
    env = build_env(own, n_envs, training=True)
    own = ordered_as(own, env.spec.record)
    test_env = build_test_env(own)
    node, test_node = own.nodes["env"], own.nodes["test.env"]
    require_alike(env.spec, test_env.spec, options=node.kwargs != test_node.kwargs)
    require_separate([env, test_env])
    learner = build_learner(own, env.spec, device)
    first, last = obs_statistics(learner), [*callbacks]
    if ranks is not None:
        ddp.check_ranks(settings, ranks.world_size, statistics=bool(first))
        learner.gradient_step.sum_over_ranks = ranks.sum
    buffer = build_buffer(own, env.spec, learner, device, run_dir, key)
    rollout: Rollouts
    pool = None
    if own.workers is None:
        share = None if ranks is None else ranks.share(settings.hardware.n_envs)
        keeps = {"keeps_hidden": buffer.keeps_hidden, "keeps_values": buffer.keeps_values}
        agents = learner.online.agents
        rollout = build_rollout(own, env, agents, exploration, share=share, kind=kind, keeps=keeps)
        pool = None if rollout.opponents is None else rollout.opponents.self_play
        if isinstance(rollout.env, RecordedEnv):
            last.append(DatasetRecorder(rollout.env))
    else:
        from rltrain.assemble.workers import build_process_rollout

        rollout = build_process_rollout(own, env, learner, buffer, exploration)
    if ranks is None or ranks.rank == 0:
        first += video_recorder(own, test_env, loggers)
        if SELF in own.opponent_weights(training=True):
            chosen = own.run.self_play
            first.append(SaveSnapshots(interval=chosen.interval, pool_size=chosen.pool_size))
        watchers = build_callbacks(own, loggers, exploration, first, last)
    else:
        watchers = Callbacks([Health(), ReplacedCode(choice=own.hardware.kernels)])
    parts = shared_parts(own, env.spec, learner, exploration, watchers, test_env, pool)
    parts |= {"rollout": rollout, "buffer": buffer, "run_dir": run_dir}
    if ranks is not None:
        return RankTrainer(ranks=ranks, shared=ddp.shared_tensors(learner), **parts)
    trainer = Trainer(**parts)
    kernels.compile_part(trainer, settings.hardware.kernels)
    return trainer


def build_buffer(
    settings: Settings,
    spec: EnvSpec,
    learner: Learner,
    device: torch.device,
    run_dir: Path,
    key: tuple[int, ...] = (),
) -> Buffer:
    """The replay for a loss and agents; ``key`` tells apart random streams and files of several.

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
        own_folder=run_dir / "-".join(["replay", *map(str, key)]),
        saves_steps=settings.run.save.replay_buffer,
    )
    buffer = conform(built, Buffer, "buffer")
    if not isinstance(plan := buffer.plan(), Plan):
        name = f"{type(buffer).__name__}.plan (buffer)"
        raise ValueError(f"{name} returned {plan!r}: expected an rltrain.types.Plan.")
    n_envs, algo = settings.hardware.n_envs, settings.learning
    require_fit(
        "buffer",
        settings,
        loss=loss,
        mixer=learner.online.mixer,
        spec=spec,
        replay=buffer,
        capacity=plan.steps,
        collected=algo.time_steps(n_envs) * n_envs,
    )
    buffer.check(algo.batch_size)
    return buffer


def build_test_function(settings: Settings) -> TestFunction | None:
    """Build the function that ``test.function`` names, with its keywords, or the object."""
    node = settings.nodes.get("test.function")
    if node is None:
        return None
    call: Any = locate(node.target)
    found: Any = call(**node.kwargs) if inspect.isclass(call) else partial(call, **node.kwargs)
    try:
        inspect.signature(found).bind("trainer", "episodes")
    except TypeError as error:  # also where it is not a function
        raise ValueError(
            f"test.function={node.target} cannot be called: expected a function of (trainer, "
            f"episodes), or a class whose objects are called so ({error})."
        ) from error
    except ValueError:  # compiled, without a signature
        pass
    return found


def shared_parts(
    settings: Settings,
    spec: EnvSpec,
    learner: Learner,
    exploration: Exploration,
    watchers: Callbacks,
    test_env: VectorEnv,
    pool: SelfPlay | None = None,
) -> dict[str, Any]:
    """The parts of trainers with environments or a dataset, the numbers of their loop, and their
    ``about``.

    Args:
        exploration: of single observations, which the actor answers.
        pool: of self-play.
    """
    run, algo, agents = settings.run, settings.learning, learner.online.agents
    return {
        "learner": learner,
        "callbacks": watchers,
        "test_rollout": build_tests(
            settings, agents, test_env, watched=watchers.watch_tests, pool=pool
        ),
        "actor": Actor(
            agents=agents,
            exploration=exploration,
            spec=spec,
            rng=generator(run.seed, ACTOR_STREAM),
            view=obs_view(spec),
        ),
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
        "resample_tests": run.test.resample,
        "test_function": build_test_function(settings),
        "about": about(settings, spec),
    }


def build_callbacks(
    settings: Settings,
    loggers: Loggers,
    exploration: object,
    first: Sequence[Callback],
    last: Sequence[Callback],
) -> Callbacks:
    """Build the callbacks of a run, in order: the user's own before those that test, log and save.

    Raises:
        ValueError: one of them may change batches whose target values are kept.
    """
    run, own = settings.run, [node.build() for node in settings.callbacks]
    parts = [("algo.exploration", exploration), *(("callbacks", each) for each in own)]
    watchers = Callbacks(
        [
            *first,
            *own,
            callback.Test(interval=run.test.interval, loggers=loggers),
            callback.Log(interval=run.log.interval, loggers=loggers, exploration=exploration),
            callback.DrawCurve(title=settings.title),
            callback.Stop(**asdict(run.stop)),
            Health(),
            callback.Save(
                interval=run.save.interval, replay_buffer=run.save.replay_buffer, parts=parts
            ),
            *last,
            # behind all that may replace some
            ReplacedCode(choice=settings.hardware.kernels),
        ]
    )
    require_fit("callbacks", settings, watchers=watchers)
    for each in watchers.callbacks:
        require_savable(each, "callbacks")
    return watchers


def obs_statistics(learner: Learner) -> list[Callback]:
    """Build the callbacks that keep the statistics of networks which normalize observations, those
    of a critic included; they stand before user operators, so that they count as they were seen.
    """
    parts = (learner.online.agents, learner.online.critic)
    norms = (part.obs_norm for part in parts if part is not None)
    return [callback.ObsStatistics(update=norm.update) for norm in norms if norm is not None]


def video_recorder(settings: Settings, env: VectorEnv, loggers: Loggers) -> list[Callback]:
    """Build the callback that records videos of tests, if ``test.video_interval`` is set.

    Raises:
        UsageError: the environment cannot be drawn.
    """
    interval, record = settings.run.test.video_interval, settings.run.test.record
    if interval is None or not record:
        return []
    from rltrain.callback.video import RecordVideo
    from rltrain.video.episode_recorder import require_drawing
    from rltrain.video.recorder import require_drawable

    key, name = "test.video_interval", settings.choices["env"]
    if record == "html":
        require_drawing(env, name, "test.record=html", "test.record=video")
        return [RecordVideo(interval=interval, loggers=loggers, page=settings.title)]
    require_drawable(env, name, f"{key}={interval}", f"{key}=null")
    return [RecordVideo(interval=interval, loggers=loggers)]


def build_loggers(settings: Settings, run_dir: Path) -> list[Logger]:
    """Build the loggers that ``logger=[…]`` chooses.

    Raises:
        UsageError: a package that one of them needs is not installed.
    """
    nodes = [node for path, node in settings.nodes.items() if path.startswith("logger.")]
    used = [node for node in nodes if node.kwargs.get("mode") != "disabled"]
    with usage_errors():
        built = [node.build(run_dir=run_dir, config=settings.record) for node in used]
        return [conform(each, Logger, "logger") for each in built]
