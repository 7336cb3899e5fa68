"""Edits of plain code and of parts, by name, and the overrides of the runs that make them."""

from typing import Any

import numpy as np
import torch
from torch import nn

from rltrain.algo import normalization, targets
from rltrain.algo.exploration.epsilon import EpsilonGreedy
from rltrain.algo.loss import td
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer import qmix
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network import gru, head
from rltrain.algo.network.distribution import Categorical
from rltrain.algo.optimizer import adam
from rltrain.algo.policy import Policy
from tests.kernels import edit_makers as make

COMMON = (
    *("tuned=none", "hardware.threads=1", "hardware.n_envs=2", "logger=[]"),
    *("test.interval=10_000", "test.episodes=1", "total_env_steps=10_000"),
    *("algo.exploration.start=0.1", "algo.exploration.end=0.1"),
    *("log.interval=10_000", "algo/optimizer=adam", "algo.optimizer.lr=0.01"),
    "algo.optimizer.eps=0.001",  # noise of rounding is not a step
)
LAYERS = (
    *("env=cartpole", "algo.learning_starts=10", "algo.batch_size=8"),
    *("algo.updates_per_env_step=1", "algo.max_grad_norm=1"),
)
DQN = "algo=dqn", *LAYERS, "algo.network.dueling=true", "algo.network.hidden_sizes=[8,8]"
WINDOWS = *DQN, "buffer=sequence", "buffer.sequence_length=4"
C51 = (
    "algo=c51",
    "algo.distribution.v_min=-9",
    "algo.distribution.v_max=9",
    *LAYERS,
    "algo.network.hidden_sizes=[8]",
)
IQN = "algo=iqn", *LAYERS, "algo.network.hidden_sizes=[8]"
NORMALIZED = *DQN, "algo.network.normalize_obs=true"
NORMED = *DQN, "algo.network.layer_norm=true"
QMIX = (
    *("algo=qmix", "env=two_step", "algo.batch_size=4", "algo.network.hidden_dim=5"),
    *("algo.mixer.embed_dim=4", "algo.mixer.hypernet_dim=6", "algo.learning_starts=8"),
)


EDITS: dict[str, tuple[tuple[str, ...], Any]] = {
    "state.clear()": (DQN, lambda t, patch: t.learner.optimizer.state.clear()),
    "another Adam": (DQN, make.replace_optimizer(torch.optim.Adam)),
    "adam": (DQN, make.replace_optimizer(adam, betas=[0.9, 0.999], eps=1e-3)),
    "SGD": (DQN, make.replace_optimizer(torch.optim.SGD)),
    "RAdam": (DQN, make.replace_optimizer(torch.optim.RAdam)),
    "_optimize": (DQN, make.own_optimize),
    "lr scheduler": (DQN, make.schedule_rate),
    "huber": (DQN, make.set_loss(huber=0.01)),
    "rescale": (DQN, make.set_loss(rescale=0.1)),
    "gamma": (DQN, make.set_returns(gamma=0.5)),
    "trace": (WINDOWS, make.set_returns(trace=0.5)),
    "n_step": (WINDOWS, make.set_returns(n_step=3)),
    "c51 gamma": (C51, make.set_returns(gamma=0.5)),
    "c51 support": (C51, make.set_loss(distribution=Categorical(atoms=51, v_min=-3, v_max=3))),
    "iqn kappa": (IQN, make.set_loss(kappa=0.1)),
    "iqn levels": (
        IQN,
        lambda t, patch: make.online(t).distribution.levels.update(online=4, target=4, acting=4),
    ),
    "qmix huber": (QMIX, make.set_loss(huber=0.01)),
    "qmix gamma": (QMIX, make.set_returns(gamma=0.5)),
    "qmix rescale": (QMIX, make.set_loss(rescale=0.1)),
    "loss._td_target": (
        DQN,
        make.set_loss(_td_target=lambda target, batch, q, state: batch.reward),
    ),
    "td.huber": (DQN, make.times(td, "huber", 2)),
    "TDLoss._td_target": (DQN, make.times(TDLoss, "_td_target", 2)),
    "qmix TDLoss._td_target": (QMIX, make.times(TDLoss, "_td_target", 2)),
    "QMix.forward": (QMIX, make.times(QMix, "forward", 2)),
    "RunningNorm.forward": (NORMALIZED, make.times(normalization.RunningNorm, "forward", 2)),
    "Policy._tensor": (DQN, make.times(Policy, "_tensor", -1)),
    "EpsilonGreedy.choose": (
        DQN,
        lambda t, patch: patch.setattr(
            EpsilonGreedy, "choose", lambda s, q, *rest: np.zeros(q.shape[:2], np.int64)
        ),
    ),
    "Store.batch": (DQN, make.other_batches),
    "store.batch": (DQN, make.other_batches_of_one),
    "ArrayBatch.of": (DQN, make.other_arrays),
    "__code__": (DQN, make.other_code),
    "qmix __code__": (QMIX, make.other_code),
    "reloaded": (DQN, make.reload_edited),
    "Linear.forward": (DQN, make.times(nn.Linear, "forward", 0.5)),
    "qmix Linear.forward": (QMIX, make.times(nn.Linear, "forward", 0.5)),
    "Adam.step": (DQN, make.shrink_after_step),
    "QMix.__call__": (QMIX, make.call_mixer),
    "loss class": (DQN, make.own_class(lambda t: [make.plain_loss(t)], "_td_target", lambda x: -x)),
    "qmix loss class": (
        QMIX,
        make.own_class(lambda t: [make.plain_loss(t)], "_td_target", lambda x: -x),
    ),
    "mixer class": (QMIX, make.own_class(make.both("mixer"), "forward", lambda x: 3 * x)),
    "agents class": (QMIX, make.own_class(make.both("agents"), "_embed", lambda x: -x)),
    "head class": (DQN, make.own_class(make.both("agents.head"), "_streams", lambda x: -x)),
    "input class": (DQN, make.own_class(make.both("agents.input"), "forward", lambda x: 3 * x)),
    "env class": (
        DQN,
        make.own_class(lambda t: [t.rollout.env], "step", lambda x: (-9 * x[0], x[1])),
    ),
    "returns": (DQN, make.other_returns),
    "returns class": (
        QMIX,
        make.own_class(lambda t: [make.plain_loss(t).returns], "__call__", make.double),
    ),
    "bellman class": (
        C51,
        make.own_class(lambda t: [make.plain_loss(t).bellman], "target", make.double_reward),
    ),
    "bellman.target": (
        C51,
        make.own_method(lambda t: make.plain_loss(t).bellman, "target", make.double_reward),
    ),
    "exploration class": (
        DQN,
        make.own_class(lambda t: [t.rollout.policy.exploration], "choose", np.zeros_like),
    ),
    "policy class": (
        DQN,
        make.own_class(lambda t: [t.rollout.policy], "values", lambda x: (-x[0], x[1])),
    ),
    "store class": (
        DQN,
        make.own_class(lambda t: [t.buffer.store], "batch", make.with_other_rewards),
    ),
    "CLIP": (NORMALIZED, make.constant(normalization, "CLIP", 0.5)),
    "step": (QMIX, make.own_method(make.online, "step", lambda result: (-result[0], result[1]))),
    "unroll": (
        QMIX,
        make.own_method(lambda t: make.online(t).rnn, "unroll", lambda hidden: 2 * hidden),
    ),
    "qmix scale": (QMIX, make.set_part("online.agents.input.scale", lambda: 0.1)),
    "scale": (DQN, make.set_part("online.agents.input.scale", lambda: 0.1)),
    "activation": (DQN, make.set_part("target.agents.torso.1", nn.Tanh)),
    "qmix activation": (QMIX, make.set_part("target.mixer.V.1", nn.Tanh)),
    "qmix target": (QMIX, make.renewed),
    "eps": (NORMED, make.set_eps),
    "reward_norm": (DQN, make.normalize_rewards),
    "qmix.F": (QMIX, make.library(qmix, "F", elu=torch.neg)),
    "gru.F": (QMIX, make.library(gru, "F", relu_=torch.tanh)),
    "targets.torch": (DQN, make.library(targets, "torch", where=lambda x, y, z: 0.1 * x.float())),
    "range": ((*WINDOWS, "algo.loss.n_step=3"), make.constant(targets, "range", lambda n: ())),
    "agent_rows": (QMIX, make.in_both("agents.input.rest.agent_rows", torch.Tensor.zero_)),
    "other rows": (
        QMIX,
        make.in_both("agents.input.rest", lambda x: setattr(x, "agent_rows", torch.zeros(2, 2))),
    ),
    "numbers": (QMIX, make.in_both("agents.input.rest.numbers", lambda x: x.add_(1))),
    "draw_levels": (IQN, make.times(head, "draw_levels", 0.5)),
    "steps": (IQN, make.in_both("agents.head.steps", lambda x: x.mul_(2))),
    "ReLU.forward": (DQN, make.constant(nn.ReLU, "forward", nn.Tanh.forward)),
    "builtin forward": (QMIX, make.constant(nn.ReLU, "forward", torch.tanh)),
    "wrapped forward": (QMIX, make.halve_layers),
    "forward.__code__": (
        DQN,
        make.constant(nn.ReLU.forward, "__code__", (lambda self, x: x.tanh()).__code__),
    ),
}


SAID = {
    "lr scheduler": "Adam.step was replaced in an object",
    "SGD": "the optimizer of GradientStep was replaced by SGD",
    "_optimize": "GradientStep._optimize was replaced in an object",
    "loss._td_target": "TDLoss._td_target was replaced in an object",
    "activation": "a part of Model was replaced",
    "step": "GRUAgents.step was replaced in an object",
    "td.huber": "rltrain/algo/loss/td.py: td_result was changed",
    "CLIP": "rltrain/algo/normalization.py: RunningNorm.forward was changed",
    "__code__": "rltrain/algo/targets.py: n_step_target was changed",
    "Linear.forward": "torch/nn/modules/linear.py: Linear.forward was changed",
    "Adam.step": "torch.optim.Adam.step was replaced",
    "loss class": "the class of TDLoss was replaced",
}
"""The line in the log, of some edits."""
