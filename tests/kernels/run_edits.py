"""Edits of plain code and of parts, by name, and the overrides of the runs that make them."""

from typing import Any

import numpy as np
import torch
from torch import nn

from rltrain.algo import targets
from rltrain.algo.exploration.epsilon import EpsilonGreedy
from rltrain.algo.loss import td
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer import qmix
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network import gru, normalization
from rltrain.algo.network.distribution import Categorical
from rltrain.algo.optimizer import adam
from rltrain.algo.policy import Policy
from tests.kernels.edit_makers import (
    both,
    call_mixer,
    constant,
    double,
    double_reward,
    halve_layers,
    in_both,
    library,
    normalize_rewards,
    online,
    other_arrays,
    other_batches,
    other_batches_of_one,
    other_code,
    other_returns,
    own_class,
    own_method,
    own_optimize,
    plain_loss,
    reload_edited,
    renewed,
    replace_optimizer,
    schedule_rate,
    set_eps,
    set_loss,
    set_part,
    set_returns,
    shrink_after_step,
    times,
    with_other_rewards,
)

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
    "another Adam": (DQN, replace_optimizer(torch.optim.Adam)),
    "adam": (DQN, replace_optimizer(adam, betas=[0.9, 0.999], eps=1e-3)),
    "SGD": (DQN, replace_optimizer(torch.optim.SGD)),
    "RAdam": (DQN, replace_optimizer(torch.optim.RAdam)),
    "_optimize": (DQN, own_optimize),
    "lr scheduler": (DQN, schedule_rate),
    "huber": (DQN, set_loss(huber=0.01)),
    "rescale": (DQN, set_loss(rescale=0.1)),
    "gamma": (DQN, set_returns(gamma=0.5)),
    "trace": (WINDOWS, set_returns(trace=0.5)),
    "n_step": (WINDOWS, set_returns(n_step=3)),
    "c51 gamma": (C51, set_returns(gamma=0.5)),
    "c51 support": (C51, set_loss(distribution=Categorical(atoms=51, v_min=-3, v_max=3))),
    "iqn kappa": (IQN, set_loss(kappa=0.1)),
    "iqn levels": (
        IQN,
        lambda t, patch: online(t).distribution.levels.update(online=4, target=4, acting=4),
    ),
    "qmix huber": (QMIX, set_loss(huber=0.01)),
    "qmix gamma": (QMIX, set_returns(gamma=0.5)),
    "qmix rescale": (QMIX, set_loss(rescale=0.1)),
    "loss._td_target": (DQN, set_loss(_td_target=lambda target, batch, q, state: batch.reward)),
    "td.huber": (DQN, times(td, "huber", 2)),
    "TDLoss._td_target": (DQN, times(TDLoss, "_td_target", 2)),
    "qmix TDLoss._td_target": (QMIX, times(TDLoss, "_td_target", 2)),
    "QMix.forward": (QMIX, times(QMix, "forward", 2)),
    "RunningNorm.forward": (NORMALIZED, times(normalization.RunningNorm, "forward", 2)),
    "Policy._tensor": (DQN, times(Policy, "_tensor", -1)),
    "EpsilonGreedy.choose": (
        DQN,
        lambda t, patch: patch.setattr(
            EpsilonGreedy, "choose", lambda s, q, *rest: np.zeros(q.shape[:2], np.int64)
        ),
    ),
    "Store.batch": (DQN, other_batches),
    "store.batch": (DQN, other_batches_of_one),
    "ArrayBatch.of": (DQN, other_arrays),
    "__code__": (DQN, other_code),
    "qmix __code__": (QMIX, other_code),
    "reloaded": (DQN, reload_edited),
    "Linear.forward": (DQN, times(nn.Linear, "forward", 0.5)),
    "qmix Linear.forward": (QMIX, times(nn.Linear, "forward", 0.5)),
    "Adam.step": (DQN, shrink_after_step),
    "QMix.__call__": (QMIX, call_mixer),
    "loss class": (DQN, own_class(lambda t: [plain_loss(t)], "_td_target", lambda x: -x)),
    "qmix loss class": (QMIX, own_class(lambda t: [plain_loss(t)], "_td_target", lambda x: -x)),
    "mixer class": (
        QMIX,
        own_class(both("mixer"), "forward", lambda x: 3 * x),
    ),
    "agents class": (QMIX, own_class(both("agents"), "_embed", lambda x: -x)),
    "head class": (DQN, own_class(both("agents.head"), "_streams", lambda x: -x)),
    "input class": (DQN, own_class(both("agents.input"), "forward", lambda x: 3 * x)),
    "env class": (DQN, own_class(lambda t: [t.rollout.env], "step", lambda x: (-9 * x[0], x[1]))),
    "returns": (DQN, other_returns),
    "returns class": (QMIX, own_class(lambda t: [plain_loss(t).returns], "__call__", double)),
    "bellman class": (C51, own_class(lambda t: [plain_loss(t).bellman], "target", double_reward)),
    "bellman.target": (C51, own_method(lambda t: plain_loss(t).bellman, "target", double_reward)),
    "exploration class": (
        DQN,
        own_class(lambda t: [t.rollout.policy.exploration], "choose", np.zeros_like),
    ),
    "policy class": (
        DQN,
        own_class(lambda t: [t.rollout.policy], "values", lambda x: (-x[0], x[1])),
    ),
    "store class": (DQN, own_class(lambda t: [t.buffer.store], "batch", with_other_rewards)),
    "CLIP": (NORMALIZED, constant(normalization, "CLIP", 0.5)),
    "step": (
        QMIX,
        own_method(online, "step", lambda result: (-result[0], result[1])),
    ),
    "unroll": (QMIX, own_method(lambda t: online(t).rnn, "unroll", lambda hidden: 2 * hidden)),
    "qmix scale": (QMIX, set_part("online.agents.input.scale", lambda: 0.1)),
    "scale": (DQN, set_part("online.agents.input.scale", lambda: 0.1)),
    "activation": (DQN, set_part("target.agents.torso.1", nn.Tanh)),
    "qmix activation": (QMIX, set_part("target.mixer.V.1", nn.Tanh)),
    "qmix target": (QMIX, renewed),
    "eps": (NORMED, set_eps),
    "reward_norm": (DQN, normalize_rewards),
    "qmix.F": (QMIX, library(qmix, "F", elu=torch.neg)),
    "gru.F": (QMIX, library(gru, "F", relu_=torch.tanh)),
    "targets.torch": (DQN, library(targets, "torch", where=lambda x, y, z: 0.1 * x.float())),
    "range": ((*WINDOWS, "algo.loss.n_step=3"), constant(targets, "range", lambda n: ())),
    "agent_rows": (QMIX, in_both("agents.input.rest.agent_rows", torch.Tensor.zero_)),
    "other rows": (
        QMIX,
        in_both("agents.input.rest", lambda x: setattr(x, "agent_rows", torch.zeros(2, 2))),
    ),
    "numbers": (QMIX, in_both("agents.input.rest.numbers", lambda x: x.add_(1))),
    "steps": (IQN, in_both("agents.head.steps", lambda x: x.mul_(2))),
    "ReLU.forward": (DQN, constant(nn.ReLU, "forward", nn.Tanh.forward)),
    "builtin forward": (QMIX, constant(nn.ReLU, "forward", torch.tanh)),
    "wrapped forward": (QMIX, halve_layers),
    "forward.__code__": (
        DQN,
        constant(nn.ReLU.forward, "__code__", (lambda self, x: x.tanh()).__code__),
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
    "CLIP": "rltrain/algo/network/normalization.py: RunningNorm.forward was changed",
    "__code__": "rltrain/algo/targets.py: n_step_target was changed",
    "Linear.forward": "torch/nn/modules/linear.py: Linear.forward was changed",
    "Adam.step": "torch.optim.Adam.step was replaced",
    "loss class": "the class of TDLoss was replaced",
}
"""The line in the log, of some edits."""
