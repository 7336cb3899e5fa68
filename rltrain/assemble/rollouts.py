"""Rollouts of training and of tests, and the policy of a checkpoint without an environment."""

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
from rltrain.assemble.env import prepare_machine, recorded
from rltrain.common import checkpoint
from rltrain.common.conformance import conform
from rltrain.common.seeding import POLICY_STREAM, TEST_POLICY_STREAM, SeedsOfTraining, generator
from rltrain.common.spec_record import read_spec
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.rollout_opponents import Opponents
from rltrain.interfaces import Agents, VectorEnv
from rltrain.kernels.digests import leave_replaced
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
    kernels.compile_part(rollout, settings.hardware.kernels)
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
    return GreedyPolicy(
        policy=policy, spec=spec, step=step, view=view, named=named, prepare=leave_replaced
    )


def obs_view(spec: EnvSpec) -> Callable[[object], np.ndarray] | None:
    """From an observation as the environment returns it to [N, *O]; None without conversion."""
    if spec.obs_space is None:
        return None
    from rltrain.env.spaces import StoredView

    return StoredView(spec.obs_space)
