"""Edits of plain code and of parts, and networks and optimizers of other kinds."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rltrain.algo import targets
from rltrain.algo.exploration.epsilon import EpsilonGreedy
from rltrain.algo.loss import td
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network import normalization
from rltrain.algo.network.distribution import Categorical
from rltrain.algo.network.mlp import mlp_agents
from rltrain.algo.optimizer import GradientStep, adam
from rltrain.algo.policy import Policy
from rltrain.algo.reward_norm import RewardNorm
from rltrain.buffer.array_batch import ArrayBatch
from rltrain.buffer.store import Store
from rltrain.types import EnvSpec

HERE = "tests.kernels.run_edits"
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


def factory(change: Any) -> Any:
    """A network's factory, whose result is changed."""

    def make(*, spec: EnvSpec, distribution: Any) -> Any:
        agents = mlp_agents(
            spec=spec,
            distribution=distribution,
            hidden_sizes=[8, 8],
            head_sizes=[],
            dueling=True,
            noisy_sigma=None,
            layer_norm=False,
            last_action=False,
            agent_id=False,
        )
        change(agents)
        return agents

    return make


def tie(agents):
    agents.torso = nn.Sequential(*agents.torso, nn.Linear(8, 8), nn.ReLU())
    agents.torso[4].weight = agents.torso[2].weight


def use_twice(agents):
    agents.torso = nn.Sequential(*agents.torso, agents.torso[2], nn.ReLU())


def reorder(agents):
    torso = agents.torso
    del agents.torso
    agents.torso = torso


def add_layer(agents):
    agents.extra = nn.Linear(3, 3)


def without_bias(agents):
    agents.torso[0] = nn.Linear(4, 8, bias=False)


def normalize_weights(agents):
    nn.utils.spectral_norm(agents.torso[0])


def swap_parameters(agents):
    weight = agents.torso[0]._parameters.pop("weight")
    agents.torso[0].register_parameter("weight", weight)


class OtherAdam(torch.optim.Adam):
    def step(self, closure=None):
        super().step()
        self.param_groups[0]["params"][0].data.mul_(0.99)


tied, twice, reordered, extended, unbiased, spectral, swapped = map(
    factory,
    (tie, use_twice, reorder, add_layer, without_bias, normalize_weights, swap_parameters),
)
BUILT = {
    name: ("algo=dqn", *LAYERS, f"algo.network._target_={HERE}.{name}")
    for name in ("tied", "twice", "reordered", "extended", "unbiased", "spectral", "swapped")
}
BUILT["subclass of Adam"] = (*DQN, f"algo.optimizer._target_={HERE}.OtherAdam")


def replace_optimizer(make, **options):
    def edit(trainer, patch):
        step = trainer.learner.gradient_step
        step.optimizer = make([step.flat.values], lr=0.003, **options)

    return edit


def own_optimize(trainer, patch):
    step = trainer.learner.gradient_step
    step._optimize = lambda: (GradientStep._optimize(step), step.weights.mul_(0.99))


def schedule_rate(trainer, patch):
    optimizer = trainer.learner.optimizer
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = optimizer.step
    optimizer.step = lambda *given: (step(*given), schedule.step())


def set_loss(**settings):
    def edit(trainer, patch):
        for name, value in settings.items():
            setattr(trainer.learner.loss, name, value)

    return edit


def set_returns(**changes):
    def edit(trainer, patch):
        loss = trainer.learner.loss
        place = "returns" if hasattr(loss, "returns") else "bellman"
        setattr(loss, place, dataclasses.replace(getattr(loss, place), **changes))

    return edit


def times(owner, name, factor):
    """A function replaced by one that returns a multiple."""

    def edit(trainer, patch):
        plain = vars(owner)[name]
        patch.setattr(owner, name, lambda *x, **y: factor * plain(*x, **y))

    return edit


def constant(module, name, value):
    return lambda trainer, patch: patch.setattr(module, name, value)


def own_method(find, name, change):
    """``change`` of what a method of one object returns."""

    def edit(trainer, patch):
        part = find(trainer)
        plain = getattr(type(part), name)
        setattr(part, name, lambda *x: change(plain(part, *x)))

    return edit


def set_part(path, make):
    """Set an attribute, or an item, of a part of the learner."""

    def edit(trainer, patch):
        *parts, name = path.split(".")
        part = functools.reduce(getattr, parts, trainer.learner)
        part.__setitem__(int(name), make()) if name.isdigit() else setattr(part, name, make())

    return edit


def set_eps(trainer, patch):
    for part in (*trainer.learner.online.modules(), *trainer.learner.target.modules()):
        if isinstance(part, nn.LayerNorm):
            part.eps = 0.5


def normalize_rewards(trainer, patch):
    trainer.learner.reward_norm = RewardNorm(
        kind="standardize", n_rewards=1, device=torch.device("cpu")
    )


def renewed(trainer, patch):
    weight = trainer.learner.target.agents.fc1
    weight.weight = nn.Parameter(torch.full_like(weight.weight, 0.1), requires_grad=False)


def online(trainer):
    return trainer.learner.online.agents


def plain_loss(trainer):
    return getattr(trainer.learner.loss, "loss", trainer.learner.loss)


def own_class(find, name, change):
    """``change`` of what a method returns in a subclass that objects get."""

    def edit(trainer, patch):
        for part in find(trainer):
            plain = getattr(type(part), name)
            method = lambda self, *x, plain=plain, **y: change(plain(self, *x, **y))  # noqa: E731
            part.__class__ = type("Own", (type(part),), {name: method})

    return edit


def store_other_rewards(fields):
    return {**fields, "reward": -30 * fields["reward"]}


def with_other_rewards(batch):
    batch.arrays["reward"] = -30 * batch.arrays["reward"]
    return batch


def other_batches(trainer, patch):
    plain = Store.batch
    patch.setattr(Store, "batch", lambda self, f, *rest: plain(self, store_other_rewards(f), *rest))


def other_batches_of_one(trainer, patch):
    store = trainer.buffer.store
    store.batch = lambda f, *rest: Store.batch(store, store_other_rewards(f), *rest)


def other_arrays(trainer, patch):
    plain = ArrayBatch.of.__func__
    other = lambda kind, f, **settings: plain(kind, store_other_rewards(f), **settings)  # noqa: E731
    patch.setattr(ArrayBatch, "of", classmethod(other))


def other_code(trainer, patch):
    def n_step_target(reward, terminated, last, value, gamma, n_step):
        return reward - value

    patch.setattr(targets.n_step_target, "__code__", n_step_target.__code__)


def reload_edited(trainer, patch):
    """As IPython's autoreload: the file was edited, functions get the code that it has now."""
    file, namespace, read = Path(targets.__file__), dict(vars(targets)), Path.read_text
    text = file.read_text().replace("target = reward + discounts", "target = reward - discounts")
    exec(compile(text, file, "exec"), namespace)
    patch.setattr(targets.n_step_target, "__code__", namespace["n_step_target"].__code__)
    patch.setattr(Path, "read_text", lambda p, *x, **y: text if p == file else read(p, *x, **y))


def shrink_after_step(trainer, patch):
    plain = torch.optim.Adam.step

    def step(self, closure=None):
        plain(self, closure)
        self.param_groups[0]["params"][0].data.mul_(0.9)

    patch.setattr(torch.optim.Adam, "step", step)


def call_mixer(trainer, patch):
    patch.setattr(QMix, "__call__", lambda self, *x: 3 * self.forward(*x), raising=False)


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
        own_class(
            lambda t: [t.learner.online.mixer, t.learner.target.mixer], "forward", lambda x: 3 * x
        ),
    ),
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
