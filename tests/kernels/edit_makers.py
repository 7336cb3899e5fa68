"""Functions that edit a run, and functions that make them: of its trainer and a monkeypatch."""

import dataclasses
import functools
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

from rltrain.algo import targets
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.normalization import RewardNorm
from rltrain.algo.optimizer import GradientStep
from rltrain.algo.return_settings import Returns
from rltrain.buffer.lazy_batch import ArrayBatch
from rltrain.buffer.store import Store


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
    return lambda trainer, patch: patch.setattr(module, name, value, raising=False)


def library(module, name, **functions):
    """A library, as only this module sees it, has other functions."""
    return constant(module, name, SimpleNamespace(**{**vars(vars(module)[name]), **functions}))


def halve_layers(trainer, patch):
    """A function of PyTorch's wraps the other method."""
    plain = nn.Linear.forward
    halved = torch.set_grad_enabled(True)(lambda self, x: 0.5 * plain(self, x))
    patch.setattr(nn.Linear, "forward", halved)


def own_method(find, name, change):
    """``change`` of what a method of one object returns."""

    def edit(trainer, patch):
        part = find(trainer)
        plain = getattr(type(part), name)
        vars(part)[name] = lambda *x: change(plain(part, *x))

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
    """``change`` of what a method returns in a subclass that objects of one class get."""

    def edit(trainer, patch):
        parts = find(trainer)
        plain = getattr(kind := type(parts[0]), name)
        own = type("Own", (kind,), {name: lambda self, *x, **y: change(plain(self, *x, **y))})
        for part in parts:
            object.__setattr__(part, "__class__", own)  # of dataclasses, too

    return edit


def both(name):
    """A part of the online and of the target network."""
    return lambda trainer: [
        functools.reduce(getattr, name.split("."), model)
        for model in (trainer.learner.online, trainer.learner.target)
    ]


def in_both(name, change):
    """``change`` of a part, or of a buffer, of both networks."""
    return lambda trainer, patch: [change(part) for part in both(name)(trainer)]


def other_returns(trainer, patch):
    class Doubled(Returns):
        def __call__(self, *x):
            return 2 * super().__call__(*x)

    loss = plain_loss(trainer)
    loss.returns = Doubled(**vars(loss.returns))


def double(x):
    return 2 * x


def double_reward(result):
    return double(result[0]), *result[1:]


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
