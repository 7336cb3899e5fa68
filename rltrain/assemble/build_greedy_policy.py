"""The greedy policy of a checkpoint, and how observations from outside become those of networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.greedy_policy import AgentsByName, GreedyPolicy
from rltrain.algo.policy import Policy
from rltrain.assemble.build_learner import load_agents, read_spec
from rltrain.assemble.env import prepare_machine
from rltrain.common import checkpoint
from rltrain.common.checkpoint import SPEC
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError
from rltrain.types import EnvSpec


def build_greedy_policy(settings: Settings, folder: Path, step: int) -> GreedyPolicy:
    """The policy of the checkpoint in ``folder``, without an environment.

    Raises:
        CheckpointError: its spec is damaged.
    """
    try:
        spec = read_spec(checkpoint.read(folder, SPEC))
        view, named = obs_view(spec), named_agents(spec)
    except (ValueError, TypeError, AssertionError) as error:
        raise CheckpointError(f"{folder} has a damaged spec.json: {error}") from error
    policy = Policy(
        agents=load_agents(settings, spec, prepare_machine(settings), folder),
        exploration=FixedEpsilon(epsilon=0.0),
        noisy=False,
        spec=spec,
        n_envs=1,
        rng=np.random.default_rng(settings.run.seed),
    )
    return GreedyPolicy(policy=policy, spec=spec, step=step, view=view, named=named)


def obs_view(spec: EnvSpec) -> Callable[[Any], np.ndarray] | None:
    """From an observation as the environment gives it to [N, *O]; None where it is so already."""
    if spec.obs_space is None:
        return None
    from rltrain.env.spaces import recorded_view

    convert = recorded_view(spec.obs_space).convert
    return lambda obs: convert(obs)[None]


def named_agents(spec: EnvSpec) -> AgentsByName | None:
    """The conversion of observations and actions by the names of agents; None where they have
    none.
    """
    if spec.agents is None:
        return None
    from rltrain.env.team import named

    return named.NamedAgents(spec)
