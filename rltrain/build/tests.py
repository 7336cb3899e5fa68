"""Tests: their environments, in this process or in workers, and the policy that is tested."""

from __future__ import annotations

from torch import nn

from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.exploration.share import ExplorationOfShare
from rltrain.algo.policy import Policy
from rltrain.build.env import build_env
from rltrain.build.policy import accelerate
from rltrain.callback import Callbacks
from rltrain.callback.training import EvaluationRollouts
from rltrain.common.seeding import TEST_POLICY_STREAM, TestSeeds, generator
from rltrain.config.schema import Settings
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.share import Share
from rltrain.interfaces import VectorEnv


def n_test_envs(settings: Settings) -> int:
    """Environments of tests, those of all workers together."""
    return min(settings.run.test.n_envs, settings.run.test.episodes)


def build_test_env(settings: Settings) -> VectorEnv:
    """The environments of tests; with workers one of them, for its sizes."""
    n_envs = n_test_envs(settings) if settings.run.test.n_workers is None else 1
    return build_env(settings, n_envs, training=False)


def build_tests(
    settings: Settings, agents: nn.Module, env: VectorEnv, callbacks: Callbacks
) -> EvaluationRollouts:
    """Test episodes in this process, or in ``test.n_workers`` others.

    Args:
        env: what ``build_test_env`` gave.
        callbacks: of the run.

    Raises:
        ValueError: what workers cannot do.
    """
    if settings.run.test.n_workers is None:
        return build_test_rollout(settings, agents, env)
    from rltrain.build.workers import build_process_tests

    return build_process_tests(settings, agents, env, watched=callbacks.watch_tests)


def build_test_rollout(
    settings: Settings, agents: nn.Module, env: VectorEnv, share: Share | None = None
) -> Rollout:
    """Test episodes in ``env``: their own seeds and exploration.

    Args:
        share: which of the environments of tests are in ``env``; None = all.
    """
    exploration: Exploration = FixedEpsilon(epsilon=settings.run.test.epsilon)
    if share is not None:
        exploration = ExplorationOfShare(exploration, first=share.first, total=share.total)
    policy = Policy(
        agents=agents,
        exploration=exploration,
        noisy=False,
        spec=env.spec,
        n_envs=env.n_envs,
        rng=generator(settings.run.seed, TEST_POLICY_STREAM),
    )
    accelerate(settings, policy)
    seeds = TestSeeds(settings.run.seed, env.n_envs)
    return Rollout(env=env, policy=policy, seeds=seeds, share=share)
