"""Learning: agents × mixer × loss, combined in YAML. Public names are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltrain.common.exports import import_name

if TYPE_CHECKING:
    from rltrain.algo.actor import Actor as Actor
    from rltrain.algo.distributional import CategoricalLoss as CategoricalLoss
    from rltrain.algo.distributional import QuantileLoss as QuantileLoss
    from rltrain.algo.exploration import Boltzmann as Boltzmann
    from rltrain.algo.exploration import EpsilonGreedy as EpsilonGreedy
    from rltrain.algo.exploration import ExponentialEpsilon as ExponentialEpsilon
    from rltrain.algo.exploration import FixedEpsilon as FixedEpsilon
    from rltrain.algo.exploration import ParameterNoise as ParameterNoise
    from rltrain.algo.exploration import PerCopyEpsilon as PerCopyEpsilon
    from rltrain.algo.exploration import PiecewiseEpsilon as PiecewiseEpsilon
    from rltrain.algo.learner import Learner as Learner
    from rltrain.algo.learner import TargetUpdate as TargetUpdate
    from rltrain.algo.loss import LambdaLoss as LambdaLoss
    from rltrain.algo.loss import TDLoss as TDLoss
    from rltrain.algo.mixer import Independent as Independent
    from rltrain.algo.mixer import QMix as QMix
    from rltrain.algo.mixer import Sum as Sum
    from rltrain.algo.munchausen import MunchausenLoss as MunchausenLoss
    from rltrain.algo.network.conv import conv_agents as conv_agents
    from rltrain.algo.network.distribution import Categorical as Categorical
    from rltrain.algo.network.distribution import ImplicitQuantile as ImplicitQuantile
    from rltrain.algo.network.distribution import Quantile as Quantile
    from rltrain.algo.network.distribution import Scalar as Scalar
    from rltrain.algo.network.gru import GRUAgents as GRUAgents
    from rltrain.algo.network.mlp import mlp_agents as mlp_agents
    from rltrain.algo.optimizer import adam as adam
    from rltrain.algo.optimizer import radam as radam
    from rltrain.algo.optimizer import rmsprop as rmsprop
    from rltrain.algo.policy import Policy as Policy
    from rltrain.algo.scripted import Scripted as Scripted

_EXPORTS = {
    "Actor": "actor",
    "Boltzmann": "exploration",
    "Categorical": "network.distribution",
    "CategoricalLoss": "distributional",
    "EpsilonGreedy": "exploration",
    "ExponentialEpsilon": "exploration",
    "FixedEpsilon": "exploration",
    "GRUAgents": "network.gru",
    "ImplicitQuantile": "network.distribution",
    "Independent": "mixer",
    "LambdaLoss": "loss",
    "Learner": "learner",
    "MunchausenLoss": "munchausen",
    "ParameterNoise": "exploration",
    "PerCopyEpsilon": "exploration",
    "PiecewiseEpsilon": "exploration",
    "Policy": "policy",
    "QMix": "mixer",
    "Quantile": "network.distribution",
    "QuantileLoss": "distributional",
    "Scalar": "network.distribution",
    "Scripted": "scripted",
    "Sum": "mixer",
    "TDLoss": "loss",
    "TargetUpdate": "learner",
    "adam": "optimizer",
    "conv_agents": "network.conv",
    "mlp_agents": "network.mlp",
    "radam": "optimizer",
    "rmsprop": "optimizer",
}
__all__ = [
    "Actor",
    "Boltzmann",
    "Categorical",
    "CategoricalLoss",
    "EpsilonGreedy",
    "ExponentialEpsilon",
    "FixedEpsilon",
    "GRUAgents",
    "ImplicitQuantile",
    "Independent",
    "LambdaLoss",
    "Learner",
    "MunchausenLoss",
    "ParameterNoise",
    "PerCopyEpsilon",
    "PiecewiseEpsilon",
    "Policy",
    "QMix",
    "Quantile",
    "QuantileLoss",
    "Scalar",
    "Scripted",
    "Sum",
    "TDLoss",
    "TargetUpdate",
    "adam",
    "conv_agents",
    "mlp_agents",
    "radam",
    "rmsprop",
]


def __getattr__(name: str) -> Any:
    return import_name(__name__, _EXPORTS, name)
