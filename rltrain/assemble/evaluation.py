"""Rollouts of tests and evaluations: the policy of a run, a checkpoint, or a scripted one."""

from __future__ import annotations

from pathlib import Path

from rltrain.assemble.build_learner import load_agents
from rltrain.assemble.build_opponents import build_opponents
from rltrain.assemble.env import (
    build_env,
    closed_unless_built,
    ordered_as_saved,
    prepare_machine,
    recorded,
)
from rltrain.assemble.rollouts import build_test_rollout, n_test_envs
from rltrain.callback.training import EvaluationRollouts
from rltrain.common.seeding import TEST_POLICY_STREAM, generator
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.hardware.device import set_allocator_policy
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.rollout_opponents import SelfPlay
from rltrain.interfaces import Agents, VectorEnv


def build_test_env(settings: Settings) -> VectorEnv:
    """The environments of tests; with workers one of them, for its sizes."""
    n_envs = n_test_envs(settings) if settings.run.test.n_workers is None else 1
    return build_env(settings, n_envs, training=False)


def build_tests(
    settings: Settings,
    agents: Agents,
    env: VectorEnv,
    *,
    watched: bool = False,
    pool: SelfPlay | None = None,
) -> EvaluationRollouts:
    """Test episodes in this process, or in ``test.n_workers`` others.

    Args:
        env: what ``build_test_env`` returned.
        watched: a callback wants to see their steps.
        pool: of self-play.

    Raises:
        ValueError: what workers cannot do.
    """
    if settings.run.test.n_workers is None:
        opponents = build_opponents(settings, env, training=False, pool=pool)
        return build_test_rollout(settings, agents, env, opponents=opponents)
    from rltrain.assemble.workers import build_process_tests

    return build_process_tests(settings, agents, env, watched=watched)


@closed_unless_built()
def build_evaluation(settings: Settings, folder: Path | None) -> EvaluationRollouts:
    """Environments and a policy: that of the checkpoint in ``folder``, here or in
    ``test.n_workers`` processes, or the scripted one of ``algo``. What is played here is recorded
    if ``dataset.write`` is set.

    Raises:
        ValueError: what workers cannot do, or a script that the environments do not have.
    """
    set_allocator_policy()
    run = settings.run
    if folder is not None:
        device, settings = prepare_machine(settings), ordered_as_saved(settings, folder)
        env = build_test_env(settings)
        agents = load_agents(settings, env.spec, device, folder)
        rollout = build_tests(settings, agents, env)
    else:
        require_fit("scripted policies", settings)
        prepare_machine(settings)
        node, rng = settings.nodes["algo"], generator(run.seed, TEST_POLICY_STREAM)
        scripted = node.kwargs["policy"] != "random"
        env = build_env(settings, n_test_envs(settings), training=False, scripted=scripted)
        policy = node.build(env=env, epsilon=run.test.epsilon, rng=rng)
        opponents = build_opponents(settings, env, training=False)
        rollout = Rollout(env=env, policy=policy, opponents=opponents)
    if run.dataset.write is None or not isinstance(rollout, Rollout):
        return rollout
    policy = rollout.policy
    recording = recorded(settings, rollout.env, policy, run.test.episodes)
    recording.writer.begin()
    return Rollout(env=recording, policy=policy, opponents=rollout.opponents)
