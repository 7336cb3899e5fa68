"""Parts of policies: their exploration, and their compiled counterparts."""

from __future__ import annotations

from rltrain import kernels
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.policy import Policy
from rltrain.common.conformance import conform
from rltrain.config.schema import Settings


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
