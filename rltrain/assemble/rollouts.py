"""Rollouts of training, tests and evaluations: the policy of a run, of a checkpoint, or a script.
And a checkpoint's policy without an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from rltrain import kernels
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.exploration.interface import Exploration, ExplorationOfShare
from rltrain.algo.loaded_policy import GreedyPolicy
from rltrain.algo.own_checks import require_facts
from rltrain.algo.policy import Policy
from rltrain.assemble.build_learner import build_policy, load_agents
from rltrain.assemble.build_opponents import build_opponents
from rltrain.assemble.env import (
    build_env,
    closed_unless_built,
    ordered_as_saved,
    prepare_machine,
    recorded,
)
from rltrain.callback.training import EvaluationRollouts
from rltrain.common import checkpoint
from rltrain.common.conformance import conform
from rltrain.common.seeding import POLICY_STREAM, TEST_POLICY_STREAM, SeedsOfTraining, generator
from rltrain.common.spec_record import read_spec
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError
from rltrain.hardware.device import set_allocator_policy
from rltrain.hardware.env_share import Share
from rltrain.hardware.opponents import Opponents, SelfPlay
from rltrain.hardware.rollout import Rollout
from rltrain.interfaces import Agents, VectorEnv
from rltrain.types import EnvSpec


def build_exploration(settings: Settings) -> Exploration:
    """The exploration of all environments of training."""
    node = settings.nodes["algo.exploration"]
    built = node.build(n_envs=settings.hardware.n_envs)
    exploration = conform(built, Exploration, "algo.exploration")
    if not node.shipped:
        require_facts(exploration)
    return exploration


def build_rollout(
    settings: Settings,
    env: VectorEnv,
    agents: Agents,
    exploration: Exploration,
    *,
    share: Share | None = None,
    replaced: int = 0,
    kind: type[Rollout] = Rollout,
    keeps: Mapping[str, bool],
) -> Rollout:
    """Experience for learning, collected in ``env``.

    Args:
        exploration: of all environments of the run.
        share: which of these are in ``env``; None = all.
        replaced: workers of the run that were replaced before; random numbers then differ.
        keeps: keywords of ``Rollout``: what it records besides the steps.
    """
    opponents = build_opponents(settings, env, training=True, agents=agents, share=share)
    first, key = 0, tuple[int, ...]()
    if share is not None:
        exploration = ExplorationOfShare(exploration, first=share.first, total=share.total)
        first, key = share.first, (share.first, replaced) if replaced else ()
    seed = settings.run.seed
    rng = generator(seed, POLICY_STREAM, *key)
    policy = build_policy(settings, agents, exploration, env.spec, env.n_envs, rng, noisy=True)
    if settings.run.dataset.write is not None:
        env = recorded(settings, env, policy)
    seeds = SeedsOfTraining(seed, first)
    rollout = kind(env=env, policy=policy, seeds=seeds, share=share, opponents=opponents, **keeps)
    kernels.compile_collecting(rollout, settings.hardware.kernels)
    return rollout


def n_test_envs(settings: Settings) -> int:
    """Environments of tests, those of all workers together."""
    return min(settings.run.test.n_envs, settings.run.test.episodes)


def build_test_rollout(
    settings: Settings,
    agents: Agents,
    env: VectorEnv,
    share: Share | None = None,
    opponents: Opponents | None = None,
) -> Rollout:
    """Test episodes in ``env``, with their own exploration.

    Args:
        share: which of the environments of tests are in ``env``; None = all.
    """
    exploration: Exploration = FixedEpsilon(epsilon=settings.run.test.epsilon)
    if share is not None:
        exploration = ExplorationOfShare(exploration, first=share.first, total=share.total)
    rng = generator(settings.run.seed, TEST_POLICY_STREAM)
    policy = build_policy(settings, agents, exploration, env.spec, env.n_envs, rng)
    return Rollout(env=env, policy=policy, share=share, opponents=opponents)


def build_greedy_policy(settings: Settings, folder: Path, step: int) -> GreedyPolicy:
    """The policy of the checkpoint in ``folder``, without an environment.

    Raises:
        CheckpointError: its spec is damaged.
    """
    try:
        spec, named = read_spec(checkpoint.read(folder, checkpoint.SPEC)), None
        view = obs_view(spec)
        if spec.agents is not None:
            from rltrain.env.team.agent_spaces import NamedAgents

            named = NamedAgents(spec)
    except (ValueError, TypeError, AssertionError) as error:
        raise CheckpointError(f"{folder} has a damaged spec.json: {error!s:.300}") from error
    policy = Policy(
        agents=load_agents(settings, spec, prepare_machine(settings), folder),
        exploration=FixedEpsilon(epsilon=0.0),
        noisy=False,
        spec=spec,
        n_envs=1,
        rng=np.random.default_rng(settings.run.seed),
    )
    look = kernels.leave_replaced
    return GreedyPolicy(policy=policy, spec=spec, step=step, view=view, named=named, prepare=look)


def obs_view(spec: EnvSpec) -> Callable[[object], np.ndarray] | None:
    """From an observation as the environment returns it to [N, *O]; None without conversion."""
    if spec.obs_space is None:
        return None
    from rltrain.env.spaces import StoredView

    return StoredView(spec.obs_space)


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
