"""The measured work of rltrain. Each function prepares it, see ``worker.py``."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

import rltrain
from benchmarks.speed.free_env import FreeEnv
from benchmarks.speed.plain_learner import PlainLearner
from benchmarks.speed.qmix_update import MAPS, make_batch, make_learner, smac_like
from rltrain.api import settings_from
from rltrain.battles.engine.kernel import draw, njit
from rltrain.buffer.priorities import Priorities, Sampling
from rltrain.common.seeding import seed_key
from rltrain.env.smac.vector import SmacVectorEnv
from rltrain.hardware.device import set_allocator_policy
from rltrain.types import Clock, EnvSpec, Steps

Work = Callable[[], float]
QUIET = "logger.wandb.mode=disabled logger.console=false"


def update(
    n_agents: int,
    lengths: Sequence[int],
    n_enemies: int | None = None,
    target_cache: int | None = None,
    plain: bool = False,
    threads: int = 1,
) -> Work:
    """QMIX updates on random episodes of these lengths; ``plain`` uses the plain learner."""
    torch.set_num_threads(threads)
    set_allocator_policy()
    spec = smac_like(n_agents, n_enemies)
    batch = make_batch(spec, lengths)
    learner = PlainLearner(spec) if plain else make_learner(spec, target_cache)
    do = partial(learner.update, batch) if plain else partial(learner.update, batch, Clock())
    return counted(do, 1.0)


def train(overrides: str, warm_up: int, chunk: int, shape: str | None = None) -> Work:
    """Env steps of a run that is already learning; ``shape``: an environment without cost."""
    folder = Path(tempfile.mkdtemp())
    words = [*overrides.split(), *QUIET.split()]
    env = partial(free_env, shape) if shape else None
    trainer = rltrain.make_trainer(words, run_dir=folder, env=env)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    trainer.start()
    trainer.run(warm_up)

    def do() -> float:
        before = trainer.clock.env_steps
        trainer.run(before + chunk)
        return float(trainer.clock.env_steps - before)

    return do


def free_env(shape: str, n_envs: int = 1) -> FreeEnv:
    n_agents, n_enemies, n_steps = MAPS[shape]
    return FreeEnv(spec=smac_like(n_agents, n_enemies), n_envs=n_envs, n_steps=n_steps)


def collect(map_name: str, n_envs: int) -> Work:
    """Env steps of acting alone: battles, network, exploration."""
    words = f"algo=qmix env=smac env.map_name={map_name} hardware.n_envs={n_envs} {QUIET}"
    folder = tempfile.mkdtemp()
    trainer = rltrain.make_trainer(f"{words} hardware.threads=1".split(), run_dir=folder)
    return lambda: float(trainer.rollout.collect(8, trainer.clock).env_steps)


def engine(map_name: str, n_envs: int, threads: int) -> Work:
    """Env steps of battles alone, with random available actions."""
    env = SmacVectorEnv(map_name=map_name, n_envs=n_envs, n_threads=threads)
    env.reset(lambda e, k: seed_key(0, e, k))
    action = np.zeros(env.avail_actions.shape[:2], np.int64)
    rng = np.ones(1, np.uint64)

    def do() -> float:
        random_legal(env.avail_actions, rng, action)
        n_steps = n_envs - int(np.count_nonzero(env.last))
        env.step(action)
        return float(n_steps)

    for _ in range(50):  # let the environments drift apart
        do()
    return do


def sum_tree(capacity: int, batch_size: int) -> Work:
    """Draws of a batch by priority, its weights, and new priorities."""
    rng = np.random.default_rng(0)
    priorities = Priorities(capacity, Sampling(), capacity)
    priorities.add(np.arange(capacity), np.ones(capacity, bool))
    priorities.update(np.arange(capacity), rng.random(capacity))

    def do() -> float:
        item, _ = priorities.draw(batch_size, rng, 0)
        priorities.update(item, rng.random(batch_size))
        return 1.0

    return do


def atari_stacks(capacity: int, storage: str, batch_size: int = 32) -> Work:
    """Batches of a full replay of Atari frames, four to a stack; its files lie below ``TMPDIR`` and
    are removed as soon as they are written, while they are open.
    """
    folder = Path(tempfile.mkdtemp())
    words = f"algo=dqn env=atari buffer.capacity={capacity} buffer.storage={storage}"
    settings = settings_from(words.split())
    spec = EnvSpec(n_agents=1, n_actions=4, obs_shape=(1, 84, 84), obs_dtype="uint8", frame_stack=4)
    facts = {"n_envs": 8, "device": torch.device("cpu"), "rng": np.random.default_rng(0)}
    facts |= {"n_step": 1, "hidden_dim": 0, "total_env_steps": capacity, "acted_error": None}
    facts |= {"own_folder": folder / "replay", "saves_steps": True, "targets": None}
    buffer = settings.nodes["buffer"].build(spec=spec, **facts)
    shape = 32, 8
    rng = np.random.default_rng(1)
    steps = Steps(
        obs=rng.integers(0, 256, (*shape, 1, 1, 84, 84), np.uint8),
        avail_actions=np.ones((*shape, 1, 4), np.uint8),
        state=np.zeros((*shape, 0), np.float32),
        last=rng.random(shape) < 0.002,
        action=np.zeros((*shape, 1), np.int64),
        reward=np.zeros((*shape, 1), np.float32),
        terminated=np.zeros(shape, np.bool_),
        lost=np.zeros(8, np.bool_),
    )
    while not buffer.full:
        buffer.add(steps)
    shutil.rmtree(folder)
    return counted(partial(buffer.sample, batch_size, Clock()), 1.0)


def counted(do: Callable[[], object], work: float) -> Work:
    """``do`` that returns how much it does."""

    def counting() -> float:
        do()
        return work

    return counting


@njit()
def random_legal(avail, rng, action):  # type: ignore[no-untyped-def]
    """A uniformly drawn available action of every agent into ``action`` [E, A]."""
    for e in range(avail.shape[0]):
        for i in range(avail.shape[1]):
            legal = 0
            for a in range(avail.shape[2]):
                legal += avail[e, i, a]
            left = int(draw(rng, 0) * np.float32(legal))
            for a in range(avail.shape[2]):
                if avail[e, i, a]:
                    if left == 0:
                        action[e, i] = a
                        break
                    left -= 1
