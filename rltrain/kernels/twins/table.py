"""Which plain code every compiled counterpart computes instead of: one table.

The comment ``# twin: …`` above each of these functions and classes names the counterparts.
"""

from __future__ import annotations

from typing import NamedTuple


class Twin(NamedTuple):
    """A counterpart, and the plain code that it doubles for objects of one class.

    Functions and classes are written ``package.module:name`` below ``rltrain``; a class stands for
    all its methods.
    """

    kernel: str  # file below rltrain/kernels
    of: str  # class
    plain: tuple[str, ...]


TD = (
    *("algo.loss.td:TDLoss.__call__", "algo.loss.td:TDLoss._td_target", "algo.loss.td:taken_value"),
    *("algo.loss.td:joint_value", "algo.loss.td:pick_greedy", "algo.loss.td:real"),
    *("algo.loss.td:result_of", "algo.loss.td:total"),
    *("algo.return_settings:Returns.__call__", "algo.return_settings:Returns.first"),
    *("algo.targets:pick", "algo.targets:greedy", "algo.targets:n_step_target"),
    *("algo.targets:huber", "algo.network.packing:zero_outside"),
    *("types:Batch.real", "types:Batch.learned", "types:inside"),
)
BELLMAN = (
    *("algo.loss.distributional:_Bellman", "algo.loss.distributional:outputs_of"),
    *("algo.loss.distributional:n_step_bootstrap", "algo.loss.td:total", "algo.targets:greedy"),
    *("algo.targets:at_step", "algo.network.packing:zero_outside"),
    *("types:Batch.real", "types:Batch.learned", "types:inside"),
)
CATEGORICAL = (
    *(*BELLMAN, "algo.loss.distributional:CategoricalLoss.__call__"),
    *("algo.loss.distributional:clipped_mass", "algo.loss.distributional:categorical_projection"),
)
QUANTILE = (
    *(*BELLMAN, "algo.loss.distributional:QuantileLoss.__call__"),
    *("algo.loss.distributional:quantile_huber", "algo.targets:huber"),
)
CHOICE = (
    *("algo.exploration.epsilon:EpsilonGreedy.choose", "algo.exploration.choice:epsilon_greedy"),
    *("algo.exploration.choice:greedy", "algo.exploration.choice:explore"),
    "algo.exploration.choice:_nth_available",
)


def _itself(kernel: str, of: str, *names: str) -> Twin:
    """A class that is doubled whole, and functions of the same module."""
    module = of.partition(":")[0]
    return Twin(kernel, of, (of, *(f"{module}:{name}" for name in names)))


LEARNING, FORWARD = "recurrent/learning.py", "feed_forward.py"
TWINS = (
    _itself("linear.py", "algo.network.layers:Layers"),
    _itself("recurrent/gru.py", "algo.network.packing:PackedGRU"),
    _itself(FORWARD, "algo.network.feed_forward:FeedForward", "_placed"),
    Twin(FORWARD, "algo.network.feed_forward:FeedForward", ("algo.network.packing:zero_outside",)),
    _itself(FORWARD, "algo.network.agent_input:AgentInput"),
    _itself(FORWARD, "algo.network.convolutions:PictureInput"),
    _itself(FORWARD, "algo.network.convolutions:Convolutions"),
    _itself(FORWARD, "algo.network.layers:Layers"),
    _itself(FORWARD, "algo.network.head:Head", "values"),
    _itself(FORWARD, "algo.network.head:NoisyLinear", "_signed_root"),
    _itself(FORWARD, "algo.network.distribution:Scalar"),
    _itself(FORWARD, "algo.network.distribution:Categorical"),
    _itself(FORWARD, "algo.network.distribution:Quantile"),
    _itself(FORWARD, "algo.network.distribution:ImplicitQuantile"),
    Twin("td_step.py", "algo.loss.td:TDLoss", TD),
    Twin("td_step.py", "algo.loss.distributional:CategoricalLoss", CATEGORICAL),
    Twin("td_step.py", "algo.loss.distributional:QuantileLoss", QUANTILE),
    _itself("td_step.py", "algo.mixer.sum:Independent"),
    Twin(LEARNING, "algo.loss.td:TDLoss", (*TD, "algo.targets:lambda_return")),
    _itself(LEARNING, "algo.mixer.sum:Independent"),
    _itself(LEARNING, "algo.mixer.sum:Sum"),
    _itself(LEARNING, "algo.mixer.qmix:QMix", "two_layers"),
    _itself(LEARNING, "algo.network.gru:GRUAgents"),
    _itself(LEARNING, "algo.network.packing:PackedGRU", "Packing"),
    _itself(LEARNING, "algo.network.agent_input:AgentInput"),
    _itself(LEARNING, "algo.network.agent_input:ActionAndAgent"),
    _itself("recurrent/acting.py", "algo.network.gru:GRUAgents"),
    _itself("recurrent/acting.py", "algo.network.packing:PackedGRU"),
    _itself("recurrent/acting.py", "algo.network.agent_input:AgentInput"),
    _itself("recurrent/acting.py", "algo.network.agent_input:ActionAndAgent"),
    Twin("acting.py", "algo.policy:Policy", ("algo.policy:Policy.values",)),
    Twin("acting.py", "algo.exploration.epsilon:EpsilonGreedy", CHOICE),
    Twin(
        "optimizer/gradient_step.py",
        "algo.optimizer:GradientStep",
        ("algo.optimizer:GradientStep.take", "algo.optimizer:GradientStep._optimize"),
    ),
)
