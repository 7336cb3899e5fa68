"""The table of compiled counterparts: instead of which plain code each of them computes, and under
which conditions.

The comment ``# twin: …`` above each of these functions and classes names the counterparts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from rltrain.algo.exploration.epsilon import (
    EpsilonGreedy,
    ExponentialEpsilon,
    FixedEpsilon,
    PiecewiseEpsilon,
)
from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.sum import Independent
from rltrain.algo.network.agent_input import ActionAndAgent, AgentInput
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.packing import PackedGRU
from rltrain.algo.network.units.attention import UnitAttention
from rltrain.algo.network.units.entities import AttackValues
from rltrain.algo.optimizer import FEW_WEIGHTS, GradientStep
from rltrain.algo.policy import Policy
from rltrain.interfaces import Model
from rltrain.kernels import acting, gradient_step
from rltrain.kernels.layers import stack
from rltrain.kernels.layers.stack import Stack, readable
from rltrain.kernels.layers.td_step import layers_loss, n_step_returns
from rltrain.kernels.module_watch import ModuleWatch
from rltrain.kernels.recurrent.packed_gru import gru
from rltrain.kernels.recurrent.team_step import MIXERS, plain_returns, team_loss
from rltrain.kernels.recurrent.unit_attention import attack, attention
from rltrain.kernels.recurrent.weights import misfit


class Twin(NamedTuple):
    """Plain code that a counterpart doubles for objects of one class.

    Functions and classes are written ``package.module:name`` below ``rltrain``; a class stands for
    all its methods.
    """

    kernel: str  # file below rltrain/kernels
    of: str  # class
    plain: tuple[str, ...]


class Counterpart(NamedTuple):
    """The counterpart of the objects of some classes; subclasses may compute something else."""

    of: tuple[type, ...]
    method: str  # the one that is replaced; "" = the object itself
    applies: Callable[..., bool]  # to an object, and for a loss its model
    make: Callable[..., Any]  # from the object the function, or what takes the object's place
    doubles: tuple[Twin, ...]
    misfit: Callable[[Any], str | None] = lambda model: None  # why it cannot read its weights


def _itself(kernel: str, of: str, *names: str) -> Twin:
    """A class that is doubled whole, and functions of the same module."""
    module = of.partition(":")[0]
    return Twin(kernel, of, (of, *(f"{module}:{name}" for name in names)))


def _methods(kernel: str, of: str, *names: str) -> Twin:
    """The counterpart of some methods of a class."""
    return Twin(kernel, of, tuple(f"{of}.{name}" for name in names))


TD = (
    *("algo.loss.td:TDLoss.__call__", "algo.loss.td:TDLoss._td_target", "algo.loss.td:taken_value"),
    *("algo.loss.td:joint_value", "algo.loss.td:pick_greedy", "algo.loss.td:real"),
    *("algo.loss.td:td_result", "algo.loss.td:penalized", "algo.loss.td:total"),
    *("algo.return_settings:Returns.__call__", "algo.return_settings:Returns.first"),
    *("algo.targets:pick", "algo.targets:greedy", "algo.targets:n_step_target"),
    *("algo.targets:huber", "algo.network.packing:zero_outside"),
    *("types:Batch.real", "types:Batch.learned", "types:inside"),
)
BELLMAN = (
    *("algo.loss.distributional:_Bellman", "algo.loss.distributional:taken_outputs"),
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


PACKED = (_itself("recurrent/packed_gru.py", "algo.network.packing:PackedGRU"),)
UNITS = (
    Twin(
        "recurrent/unit_attention.py",
        "algo.network.units.attention:UnitAttention",
        ("algo.network.units.attention:UnitAttention", "algo.network.units.entities:rows"),
    ),
    _itself("recurrent/unit_attention.py", "algo.network.units.entities:AttackValues", "rows"),
)
STACK = (
    _itself("layers/stack.py", "algo.network.feed_forward:FeedForward", "_placed"),
    Twin(
        "layers/stack.py",
        "algo.network.feed_forward:FeedForward",
        ("algo.network.packing:zero_outside",),
    ),
    _itself("layers/stack.py", "algo.network.agent_input:AgentInput"),
    _itself("layers/stack.py", "algo.network.convolutions:PictureInput"),
    _itself("layers/stack.py", "algo.network.convolutions:Convolutions"),
    _itself("layers/stack.py", "algo.network.head:Head", "values"),
    _itself("layers/stack.py", "algo.network.head:NoisyLinear", "_signed_root"),
    _itself("layers/stack.py", "algo.network.distribution:Scalar"),
    _itself("layers/stack.py", "algo.network.distribution:Categorical"),
    _itself("layers/stack.py", "algo.network.distribution:Quantile"),
    _itself("layers/stack.py", "algo.network.distribution:ImplicitQuantile"),
)
TD_STEP = (
    Twin("layers/td_step.py", "algo.loss.td:TDLoss", TD),
    Twin("layers/td_step.py", "algo.loss.distributional:CategoricalLoss", CATEGORICAL),
    Twin("layers/td_step.py", "algo.loss.distributional:QuantileLoss", QUANTILE),
    _itself("layers/td_step.py", "algo.mixer.sum:Independent"),
)
TEAM_STEP = (
    Twin("recurrent/team_step.py", "algo.loss.td:TDLoss", (*TD, "algo.targets:lambda_return")),
    _itself("recurrent/team_step.py", "algo.mixer.sum:Independent"),
    _itself("recurrent/team_step.py", "algo.mixer.sum:Sum"),
    _itself("recurrent/team_step.py", "algo.mixer.qmix:QMix", "two_layers"),
    _itself("recurrent/team_step.py", "algo.network.gru:GRUAgents"),
    _itself("recurrent/team_step.py", "algo.network.packing:PackedGRU", "Packing"),
    _itself("recurrent/team_step.py", "algo.network.agent_input:AgentInput"),
    _itself("recurrent/team_step.py", "algo.network.agent_input:ActionAndAgent"),
)
RECURRENT = (
    _itself("acting.py", "algo.network.gru:GRUAgents"),
    _itself("acting.py", "algo.network.packing:PackedGRU"),
    _itself("acting.py", "algo.network.agent_input:AgentInput"),
    _itself("acting.py", "algo.network.agent_input:ActionAndAgent"),
)
ACTING = (
    _methods("acting.py", "algo.policy:Policy", "values", "_tensor"),
    Twin("acting.py", "algo.exploration.epsilon:EpsilonGreedy", CHOICE),
    _methods("acting.py", "algo.network.normalization:RunningNorm", "forward"),
)
STEP = (_itself("gradient_step.py", "algo.optimizer:GradientStep", "_Eager", "_make"),)
LEARNING = (
    _methods("learning.py", "trainer:Trainer", "learn"),
    _methods("learning.py", "algo.learner:Learner", "update", "step"),
    _methods("learning.py", "buffer.replay:ReplayBuffer", "sample", "batch_of", "update_priority"),
    Twin(
        "learning.py",
        "buffer.replay:ReplayBuffer",
        (
            *("buffer.windows:seen_in", "buffer.store:Store.batch", "algo.checks:BatchCheck"),
            *("buffer.array_batch:ArrayBatch", "algo.checks:batch_layout"),
            *("callback.health:Health.on_update", "callback.hooks:pass_on"),
            *("callback.hooks:pass_on_batch", "common.metrics:Metrics.add"),
        ),
    ),
    _methods("learning.py", "algo.network.normalization:RunningNorm", "forward"),
)
COLLECTING = (
    _methods(
        "collecting.py", "hardware.rollout:Rollout", "advance", "_step", "_count", "_finished"
    ),
    _methods("collecting.py", "algo.policy:Policy", "act"),
    _methods("collecting.py", "algo.exploration.interface:Exploration", "noise"),
    _methods("collecting.py", "env.games.classic_control:ClassicControl", "step"),
)
TWINS = (
    *LEARNING,
    *COLLECTING,
    *PACKED,
    *UNITS,
    *STACK,
    *TD_STEP,
    *TEAM_STEP,
    *RECURRENT,
    *ACTING,
    *STEP,
)


def layers_only(agents: nn.Module) -> bool:
    """Whether agents are nothing but layers."""
    return Stack.of(agents) is not None


def recurrent_only(agents: nn.Module) -> bool:
    """Whether agents are a linear layer, a GRU cell and a linear layer."""
    if type(agents) is not GRUAgents:
        return False
    if agents.norm is not None or agents.head is not None or agents.input.norm is not None:
        return False
    parts = agents.fc1, agents.rnn, agents.fc2, agents.input, agents.input.rest
    kinds = nn.Linear, PackedGRU, nn.Linear, AgentInput, ActionAndAgent
    return all(type(x) is kind for x, kind in zip(parts, kinds, strict=True))


def independent_layers(loss: TDLoss | CategoricalLoss | QuantileLoss, model: Model) -> bool:
    """Whether a model is nothing but layers whose values are learned by themselves, with n-step
    returns.
    """
    stack = Stack.of(model.agents)
    if type(model.mixer) is not Independent or stack is None:
        return False
    in_order = [*map(id, stack.tensors)] == [*map(id, model.parameters())]
    return in_order and n_step_returns(loss)


def recurrent_team(loss: TDLoss, model: Model) -> bool:
    """Whether a mixing network of two-layer hyper-networks, a sum, or nothing joins the values of
    recurrent agents.
    """
    mixer = model.mixer
    if not plain_returns(loss) or model.critic is not None or type(mixer) not in MIXERS:
        return False
    two_layers = type(mixer) is not QMix or isinstance(mixer.hyper_w_1, nn.Sequential)
    return two_layers and recurrent_only(model.agents)


def adam_on_few_weights(step: GradientStep) -> bool:
    """Whether the optimizer is Adam, and its weights are few, in single precision on the CPU."""
    weights = step.weights
    few = weights.is_cpu and weights.dtype == torch.float32 and weights.numel() < FEW_WEIGHTS
    return few and type(step.optimizer).__bases__ == gradient_step.ADAM


def linear_units(part: UnitAttention | AttackValues) -> bool:
    """Whether linear layers embed units."""
    layers = part.embed.values() if isinstance(part.embed, nn.ModuleDict) else [part.embed]
    return all(type(layer) is nn.Linear and readable(layer) for layer in layers)


def always(part: object) -> bool:
    """Whatever an object is set to."""
    return True


COUNTERPARTS = (
    Counterpart((PackedGRU,), "unroll", always, lambda cell: gru, PACKED),
    Counterpart(
        (UnitAttention,),
        "forward",
        linear_units,
        lambda part: partial(attention, ModuleWatch(part)),
        UNITS,
    ),
    Counterpart(
        (AttackValues,),
        "forward",
        linear_units,
        lambda part: partial(attack, ModuleWatch(part)),
        UNITS,
    ),
    Counterpart(
        (FeedForward,),
        "step",
        layers_only,
        lambda agents: partial(stack.compiled_step, Stack.required(agents)),
        STACK,
    ),
    Counterpart(
        (GRUAgents,),
        "step",
        recurrent_only,
        lambda agents: partial(acting.recurrent_step, acting.RecurrentStep(agents)),
        RECURRENT,
    ),
    Counterpart(
        (TDLoss, CategoricalLoss, QuantileLoss),
        "",
        independent_layers,
        lambda loss, *options: layers_loss(loss),
        (*TD_STEP, *STACK),
    ),
    Counterpart((TDLoss,), "", recurrent_team, team_loss, TEAM_STEP, misfit),
    Counterpart(
        (Policy,),
        "values",
        lambda policy: layers_only(policy.agents) and acting.obs_alone(policy.agents.input),
        lambda policy: partial(acting.compiled_values, Stack.required(policy.agents)),
        (*ACTING, *STACK),
    ),
    Counterpart(
        (Policy,),
        "values",
        lambda policy: recurrent_only(policy.agents),
        lambda policy: partial(acting.compiled_values, acting.RecurrentStep(policy.agents)),
        (*ACTING, *RECURRENT),
    ),
    Counterpart(
        (EpsilonGreedy, ExponentialEpsilon, FixedEpsilon, PiecewiseEpsilon),
        "choose",
        always,
        lambda exploration: acting.choose,
        ACTING,
    ),
    Counterpart(
        (GradientStep,), "take", adam_on_few_weights, lambda step: gradient_step.adam_step, STEP
    ),
)
