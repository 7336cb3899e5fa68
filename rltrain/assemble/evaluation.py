"""Rollouts of tests and evaluations: the policy of a run, a checkpoint, or a scripted one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rltrain.assemble.build_learner import load_agents
from rltrain.assemble.build_opponents import build_opponents
from rltrain.assemble.build_policy import build_test_rollout, n_test_envs
from rltrain.assemble.env import build_env, ordered_as_saved, prepare_machine, recorded
from rltrain.callback import Callbacks
from rltrain.callback.training import EvaluationRollouts
from rltrain.common.seeding import TEST_POLICY_STREAM, generator
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.self_play import SelfPlay
from rltrain.interfaces import Agents, VectorEnv


def build_test_env(settings: Settings) -> VectorEnv:
    """The environments of tests; with workers one of them, for its sizes."""
    n_envs = n_test_envs(settings) if settings.run.test.n_workers is None else 1
    return build_env(settings, n_envs, training=False)


def build_tests(
    settings: Settings,
    agents: Agents,
    env: VectorEnv,
    callbacks: Callbacks,
    pool: SelfPlay | None = None,
) -> EvaluationRollouts:
    """Test episodes in this process, or in ``test.n_workers`` others.

    Args:
        env: what ``build_test_env`` gave.
        callbacks: of the run.
        pool: of self-play.

    Raises:
        ValueError: what workers cannot do.
    """
    if settings.run.test.n_workers is None:
        opponents = build_opponents(settings, env, training=False, pool=pool)
        return build_test_rollout(settings, agents, env, opponents=opponents)
    from rltrain.assemble.workers import build_process_tests

    return build_process_tests(settings, agents, env, watched=callbacks.watch_tests)


class Evaluated(EvaluationRollouts, Protocol):
    """Rollouts of an evaluation."""

    about: Mapping[str, Any]
    env: VectorEnv  # one of its environments at least


def build_evaluation(settings: Settings, folder: Path) -> Evaluated:
    """Environments and a policy with a checkpoint's weights, here or in ``test.n_workers``
    processes.

    Raises:
        ValueError: what workers cannot do.
    """
    device, settings = prepare_machine(settings), ordered_as_saved(settings, folder)
    env = build_test_env(settings)
    agents = load_agents(settings, env.spec, device, folder)
    if settings.run.test.n_workers is None:
        opponents = build_opponents(settings, env, training=False)
        rollout = build_test_rollout(settings, agents, env, opponents=opponents)
        return recorded_rollout(settings, rollout)
    from rltrain.assemble.workers import build_process_tests

    return build_process_tests(settings, agents, env)


def build_scripted_evaluation(settings: Settings) -> Rollout:
    """Environments and a scripted policy, for evaluation.

    Raises:
        ValueError: the environments have no such policy, or workers were asked for.
    """
    run = settings.run
    require_fit("scripted policies", settings)
    prepare_machine(settings)
    scripted = settings.nodes["algo"].kwargs["policy"] != "random"
    env = build_env(settings, n_test_envs(settings), training=False, scripted=scripted)
    policy = settings.nodes["algo"].build(
        env=env, epsilon=run.test.epsilon, rng=generator(run.seed, TEST_POLICY_STREAM)
    )
    opponents = build_opponents(settings, env, training=False)
    return recorded_rollout(settings, Rollout(env=env, policy=policy, opponents=opponents))


def recorded_rollout(settings: Settings, rollout: Rollout) -> Rollout:
    """The rollout of an evaluation, recorded if ``dataset.write`` is set."""
    if settings.run.dataset.write is None:
        return rollout
    policy: Any = rollout.policy  # a BehaviorPolicy too
    env = recorded(settings, rollout.env, policy, settings.run.test.episodes)
    env.writer.begin()
    return Rollout(env=env, policy=policy, opponents=rollout.opponents)
