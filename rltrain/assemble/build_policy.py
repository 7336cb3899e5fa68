"""Parts of policies: their exploration and compiled counterparts, and the rollout of tests."""

from __future__ import annotations

from rltrain import kernels
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.exploration.share import ExplorationOfShare
from rltrain.algo.policy import Policy
from rltrain.common.conformance import conform
from rltrain.common.seeding import TEST_POLICY_STREAM, generator
from rltrain.config.schema import Settings
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout import Rollout
from rltrain.interfaces import Agents, VectorEnv


def build_exploration(settings: Settings) -> Exploration:
    """The exploration of all environments of training."""
    node = settings.nodes["algo.exploration"]
    built = node.build(n_envs=settings.hardware.n_envs)
    exploration: Exploration = conform(built, Exploration, "algo.exploration")
    return exploration


def accelerate(settings: Settings, policy: Policy) -> None:
    """Let a policy act in compiled code, if ``hardware.kernels`` says so."""
    if kernels.chosen(settings.hardware.kernels) == "compiled":
        kernels.compile_policy(policy, settings.hardware.kernels == "compiled")


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
