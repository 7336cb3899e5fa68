"""The rollouts of an evaluation: with the policy of a checkpoint, or a scripted one."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rltrain.build.env import build_env, prepare_machine, recorded
from rltrain.build.learner import load_agents
from rltrain.build.trainer import build_test_rollout
from rltrain.common.seeding import TEST_POLICY_STREAM, TestSeeds, generator
from rltrain.config.schema import Settings
from rltrain.hardware.rollout import Rollout
from rltrain.offline.recorder import BehaviorPolicy


def build_evaluation(settings: Settings, folder: Path) -> Rollout:
    """Environments and a policy with a checkpoint's weights, for evaluation."""
    device = prepare_machine(settings)
    n_envs = min(settings.run.test.n_envs, settings.run.test.episodes)
    env = build_env(settings, n_envs, training=False)
    agents = load_agents(settings, env.spec, device, folder)
    return recorded_rollout(settings, build_test_rollout(settings, agents, env))


def build_scripted_evaluation(settings: Settings) -> Rollout:
    """Environments and a scripted policy, for evaluation.

    Raises:
        ValueError: the environments have no such policy.
    """
    run = settings.run
    prepare_machine(settings)
    scripted = settings.nodes["algo"].kwargs["policy"] != "random"
    n_envs = min(run.test.n_envs, run.test.episodes)
    env = build_env(settings, n_envs, training=False, scripted=scripted)
    policy = settings.nodes["algo"].build(
        env=env, epsilon=run.test.epsilon, rng=generator(run.seed, TEST_POLICY_STREAM)
    )
    rollout = Rollout(env=env, policy=policy, seeds=TestSeeds(run.seed, env.n_envs))
    return recorded_rollout(settings, rollout)


def recorded_rollout(settings: Settings, rollout: Rollout) -> Rollout:
    """The rollout of an evaluation, recorded if ``dataset.write`` is set."""
    run, inner = settings.run, rollout.env
    if run.dataset.write is None:
        return rollout
    env = recorded(settings, inner, cast(BehaviorPolicy, rollout.policy), run.test.episodes)
    env.writer.begin()
    return Rollout(env=env, policy=rollout.policy, seeds=TestSeeds(run.seed, inner.n_envs))
