"""Learning: agents × mixer × loss, combined in YAML. Public names are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltrain.common.imports import import_name

if TYPE_CHECKING:
    from rltrain.algo.actor import Actor as Actor
    from rltrain.algo.exploration.boltzmann import Boltzmann as Boltzmann
    from rltrain.algo.exploration.epsilon import EpsilonGreedy as EpsilonGreedy
    from rltrain.algo.exploration.epsilon import ExponentialEpsilon as ExponentialEpsilon
    from rltrain.algo.exploration.epsilon import FixedEpsilon as FixedEpsilon
    from rltrain.algo.exploration.epsilon import PerEnvEpsilon as PerEnvEpsilon
    from rltrain.algo.exploration.epsilon import PiecewiseEpsilon as PiecewiseEpsilon
    from rltrain.algo.exploration.parameter_noise import ParameterNoise as ParameterNoise
    from rltrain.algo.learner import Learner as Learner
    from rltrain.algo.loss.distributional import CategoricalLoss as CategoricalLoss
    from rltrain.algo.loss.distributional import QuantileLoss as QuantileLoss
    from rltrain.algo.loss.q_lambda import LambdaLoss as LambdaLoss
    from rltrain.algo.loss.qtran import QTranCritic as QTranCritic
    from rltrain.algo.loss.qtran import QTranLoss as QTranLoss
    from rltrain.algo.loss.td import TDLoss as TDLoss
    from rltrain.algo.loss.weighted import CentralCritic as CentralCritic
    from rltrain.algo.loss.weighted import WeightedLoss as WeightedLoss
    from rltrain.algo.mixer.qatten import Qatten as Qatten
    from rltrain.algo.mixer.qmix import QMix as QMix
    from rltrain.algo.mixer.qmix import no_critic as no_critic
    from rltrain.algo.mixer.qplex import QPlex as QPlex
    from rltrain.algo.mixer.qplex import QPlexAttention as QPlexAttention
    from rltrain.algo.mixer.sum import Independent as Independent
    from rltrain.algo.mixer.sum import Sum as Sum
    from rltrain.algo.network.conv import conv_agents as conv_agents
    from rltrain.algo.network.distribution import Categorical as Categorical
    from rltrain.algo.network.distribution import ImplicitQuantile as ImplicitQuantile
    from rltrain.algo.network.distribution import Quantile as Quantile
    from rltrain.algo.network.distribution import Scalar as Scalar
    from rltrain.algo.network.gru import GRUAgents as GRUAgents
    from rltrain.algo.network.hpn import HPNAgents as HPNAgents
    from rltrain.algo.network.lstm import LSTMAgents as LSTMAgents
    from rltrain.algo.network.mlp import mlp_agents as mlp_agents
    from rltrain.algo.network.multi_input import multi_input_agents as multi_input_agents
    from rltrain.algo.optimizer import adam as adam
    from rltrain.algo.optimizer import radam as radam
    from rltrain.algo.optimizer import rmsprop as rmsprop
    from rltrain.algo.policy import Policy as Policy
    from rltrain.algo.scripted import Scripted as Scripted
    from rltrain.algo.target_update import TargetUpdate as TargetUpdate

_EXPORTS = {
    "Actor": "actor",
    "Boltzmann": "exploration.boltzmann",
    "Categorical": "network.distribution",
    "CategoricalLoss": "loss.distributional",
    "CentralCritic": "loss.weighted",
    "EpsilonGreedy": "exploration.epsilon",
    "ExponentialEpsilon": "exploration.epsilon",
    "FixedEpsilon": "exploration.epsilon",
    "GRUAgents": "network.gru",
    "HPNAgents": "network.hpn",
    "ImplicitQuantile": "network.distribution",
    "Independent": "mixer.sum",
    "LSTMAgents": "network.lstm",
    "LambdaLoss": "loss.q_lambda",
    "Learner": "learner",
    "ParameterNoise": "exploration.parameter_noise",
    "PerEnvEpsilon": "exploration.epsilon",
    "PiecewiseEpsilon": "exploration.epsilon",
    "Policy": "policy",
    "QMix": "mixer.qmix",
    "QPlex": "mixer.qplex",
    "QPlexAttention": "mixer.qplex",
    "QTranCritic": "loss.qtran",
    "QTranLoss": "loss.qtran",
    "Qatten": "mixer.qatten",
    "Quantile": "network.distribution",
    "QuantileLoss": "loss.distributional",
    "Scalar": "network.distribution",
    "Scripted": "scripted",
    "Sum": "mixer.sum",
    "TDLoss": "loss.td",
    "TargetUpdate": "target_update",
    "WeightedLoss": "loss.weighted",
    "adam": "optimizer",
    "conv_agents": "network.conv",
    "mlp_agents": "network.mlp",
    "multi_input_agents": "network.multi_input",
    "no_critic": "mixer.qmix",
    "radam": "optimizer",
    "rmsprop": "optimizer",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _EXPORTS, name)
