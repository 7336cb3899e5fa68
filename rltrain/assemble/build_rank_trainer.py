"""The trainer of one of several processes that learn together (hardware=ddp)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rltrain.algo.exploration.share import ExplorationOfShare
from rltrain.algo.learner import Learner
from rltrain.algo.policy import Policy
from rltrain.assemble.buffer import build_buffer
from rltrain.assemble.build_learner import build_learner
from rltrain.assemble.build_policy import accelerate, build_exploration
from rltrain.assemble.build_trainer import build_actor, trainer_settings
from rltrain.assemble.callbacks import build_callbacks, obs_statistics, video_recorder
from rltrain.assemble.env import build_env, need_same_sizes, ordered_as, prepare_machine
from rltrain.assemble.evaluation import build_test_env, build_tests
from rltrain.callback import Callback, Callbacks, Health
from rltrain.common.seeding import (
    ENV_STREAM,
    NOISE_STREAM,
    POLICY_STREAM,
    EpisodeSeeder,
    generator,
    seed_key,
)
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Node, Settings
from rltrain.hardware.ddp.ranks import Ranks, rank_of_environment
from rltrain.hardware.env_share import Share, shares_of
from rltrain.hardware.parent_death import kill_with_parent
from rltrain.hardware.rollout import Rollout
from rltrain.logger.loggers import Loggers
from rltrain.rank_trainer import RankTrainer

TORCHRUN = "torchrun --nproc-per-node=2 -m rltrain"


def build_rank_trainer(
    settings: Settings, run_dir: Path, loggers: Loggers, callbacks: Sequence[Callback]
) -> RankTrainer:
    """A trainer with its share of environments, buffer and batch.

    Raises:
        ValueError: no torchrun, or settings that do not fit together.
    """
    rank, world_size, local_rank = torchrun_ranks()
    kill_with_parent()  # nothing can be saved yet
    check_ranks(settings, world_size)
    run, machine = settings.run, settings.ranks
    assert machine is not None
    device = prepare_machine(settings)
    if device.type == "cuda":
        torch.cuda.set_device(local_rank)
    torch.manual_seed(seed_key(run.seed, NOISE_STREAM, rank))  # every rank draws its own noise
    share = shares_of(settings.hardware.n_envs, world_size)[rank]
    own = rank_settings(settings, share, world_size)
    env = build_env(own, share.n_envs, training=True)
    test_env = build_test_env(ordered_as(settings, env.spec.record))
    need_same_sizes(env.spec, test_env.spec)
    learner = build_learner(own, env.spec, device)
    check_ranks(settings, world_size, statistics=bool(obs_statistics(learner)))
    exploration = build_exploration(settings)
    buffer = build_buffer(own, env.spec, learner, device, key=(rank,))
    policy = Policy(
        agents=learner.online.agents,
        exploration=ExplorationOfShare(exploration, first=share.first, total=share.total),
        spec=env.spec,
        n_envs=share.n_envs,
        rng=generator(run.seed, POLICY_STREAM),
    )
    accelerate(settings, policy)
    watchers = Callbacks([Health()])
    if rank == 0:
        video = video_recorder(settings, test_env, loggers)
        watchers = build_callbacks(settings, loggers, exploration, video, callbacks)
    ranks = Ranks(rank=rank, world_size=world_size, device=device, timeout=machine.rank_timeout)
    learner.gradient_step.sum_over_ranks = ranks.sum
    return RankTrainer(
        ranks=ranks,
        shared=shared_tensors(learner),
        rollout=RankRollout(
            env=env,
            policy=policy,
            seeds=EpisodeSeeder(run.seed, ENV_STREAM, share.first),
            keeps_hidden=buffer.keeps_hidden,
            keeps_values=buffer.keeps_values,
            share=share,
        ),
        test_rollout=build_tests(settings, learner.online.agents, test_env, watchers),
        buffer=buffer,
        learner=learner,
        actor=build_actor(settings, learner, env, exploration),
        callbacks=watchers,
        run_dir=run_dir,
        **{**trainer_settings(settings, env.spec), **rank_numbers(own)},
    )


class RankRollout(Rollout):
    """A rollout that a checkpoint of rank 0 restarts, whatever its number of environments was."""

    def restart(self, state: Mapping[str, Any], episodes: int) -> None:
        self.policy.carry_on(state["policy"])
        self._started, self._skip = False, episodes


def torchrun_ranks() -> tuple[int, int, int]:
    """Rank, world size and rank on this machine.

    Raises:
        ValueError: torchrun did not start this process.
    """
    found = rank_of_environment()
    if found is None:
        raise ValueError(
            "hardware=ddp learns in several processes that torchrun starts, and this one was not "
            "started by it: its environment has no RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
            f"MASTER_PORT. Type {TORCHRUN} … hardware=ddp, or hardware=auto for one process."
        )
    return found


def rank_settings(settings: Settings, share: Share, world_size: int) -> Settings:
    """The settings with this rank's part of environments, batch, buffer and first steps."""
    algo, node = settings.algo, settings.nodes["buffer"]
    assert algo is not None
    kwargs = {
        name: value // world_size if name in ("capacity", "max_bytes") and value else value
        for name, value in node.kwargs.items()
    }
    buffer = Node(path=node.path, target=node.target, kwargs=kwargs)
    return replace(
        settings,
        hardware=replace(settings.hardware, n_envs=share.n_envs),
        algo=replace(
            algo,
            batch_size=algo.batch_size // world_size,
            learning_starts=-(-algo.learning_starts // world_size),
        ),
        nodes={**settings.nodes, "buffer": buffer},
    )


def rank_numbers(settings: Settings) -> dict[str, int]:
    """The numbers of a trainer's loop that are a rank's own."""
    algo = settings.algo
    assert algo is not None
    return {"batch_size": algo.batch_size, "learning_starts": algo.learning_starts}


def shared_tensors(learner: Learner) -> list[torch.Tensor]:
    """Return the tensors that are the same on all ranks: weights, targets, buffers, moments."""
    step = learner.gradient_step
    buffers = [*learner.online.buffers(), *learner.target.parameters(), *learner.target.buffers()]
    return [step.weights, *(tensor.data for tensor in buffers), *step.moments.values()]


def check_ranks(settings: Settings, world_size: int, *, statistics: bool = False) -> None:
    """ValueError for settings that do not fit ``hardware=ddp`` with so many processes.

    Args:
        statistics: the networks keep statistics of the observations.
    """
    assert settings.algo is not None
    require_fit(
        "ranks",
        settings,
        world_size=world_size,
        divisible=-(-settings.algo.batch_size // world_size) * world_size,
        given_callbacks=bool(settings.callbacks),
        statistics=statistics,
    )


def is_first() -> bool:
    """Whether this process writes the files of the run."""
    return torchrun_ranks()[0] == 0
