"""A rollout of test episodes: the policy that is tested and its exploration."""

from __future__ import annotations

from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.exploration.share import ExplorationOfShare
from rltrain.algo.policy import Policy
from rltrain.assemble.policy import accelerate
from rltrain.common.seeding import TEST_POLICY_STREAM, generator
from rltrain.config.schema import Settings
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout import Rollout
from rltrain.interfaces import Agents, VectorEnv


def n_test_envs(settings: Settings) -> int:
    """Environments of tests, those of all workers together."""
    return min(settings.run.test.n_envs, settings.run.test.episodes)


def build_test_rollout(
    settings: Settings, agents: Agents, env: VectorEnv, share: Share | None = None
) -> Rollout:
    """Test episodes in ``env``, with their own exploration.

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
    return Rollout(env=env, policy=policy, share=share)
