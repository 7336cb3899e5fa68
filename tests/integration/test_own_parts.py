"""Parts of a user's own: they train, are saved, resumed and loaded; what they lack is named."""

import pytest
import torch

import rltrain
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.target_update import TargetUpdate
from rltrain.api import settings_from
from rltrain.callback import Callback, Log
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import CheckpointError, UsageError
from rltrain.interfaces import Loss
from rltrain.logger import Logger
from rltrain.mode.messages.closing import to_trust
from tests.helpers import without
from tests.integration import own_parts
from tests.marks import slow_except

OWN = "tests.integration.own_parts"


def words_for(small, part, name, *more):
    kept = without(small, f"{part}.", "buffer.", "algo.exploration.")
    buffer = [] if part == "buffer" else ["buffer.capacity=64"]
    algo = "qmix" if name == "Table" else "vdn"
    return [*kept, *buffer, f"algo={algo}", f"{part}._target_={OWN}.{name}", *more]


TRAINS = [
    ("algo.network", "Net", "algo.network.width=4"),
    ("algo.network", "Table", "seed=0"),
    ("algo.loss", "Loss", "algo.loss.scale=2"),
    ("algo.mixer", "Mean", "seed=0"),
    ("algo.exploration", "Cycle", "algo.exploration.period=3"),
    ("buffer", "Latest", "buffer.capacity=20"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("part", "name", "word"), TRAINS)
def test_a_part_of_ones_own_trains(small, tmp_path, part, name, word):
    trainer = rltrain.make_trainer(words_for(small, part, name, word), run_dir=tmp_path)
    trainer.run(40)
    trainer.test(episodes=2)
    trainer.close()
    assert trainer.clock.updates > 0


@pytest.mark.slow
def test_the_commands_that_a_run_ends_with_trust_its_parts(small):
    assert to_trust(settings_from(words_for(small, "algo.mixer", "Mean")).plain) == "tests"
    assert to_trust(settings_from([*small, "algo=qmix"]).plain) is None
    adamw = "algo.optimizer={_target_: torch.optim.AdamW, lr: 5e-4}"
    own_env = ["algo=dqn", "env=gymnasium", "env.id=mine:Walk-v0", adamw]
    assert to_trust(settings_from(own_env).plain) == "mine,torch"


LACKS = [
    ("algo.loss", "LossWithoutSteps", r"\(algo.loss\) lacks n_step \(rewards summed"),
    ("algo.network", "NoHiddenDim", r"\(algo.network\) lacks hidden_dim \(size of the recurrent"),
    ("algo.network", "NotAModule", r"NotAModule \(algo.network\): expected a torch.nn.Module"),
    ("algo.mixer", "LazyMean", r"LazyMean \(algo.mixer\): the size of bias.weight is not known"),
    ("algo.mixer", "MeanWithoutStreams", r"lacks n_streams \(M, value streams"),
    ("algo.exploration", "NoExploration", r"\(algo.exploration\) lacks choose"),
    ("buffer", "Half", r"Half \(buffer\) lacks plan; ready; sample; state_dict; load_state_dict"),
    ("algo.optimizer", "NotAnOptimizer", r"lacks param_groups .*; state .*; step"),
    ("env", "SingleEnv", r"SingleEnv \(env\) is no VectorEnv .* env=gymnasium env.id="),
]


@pytest.mark.parametrize(("part", "name", "said"), LACKS)
def test_what_a_part_lacks_is_named_before_anything_is_written(small, tmp_path, part, name, said):
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer(words_for(small, part, name), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def run(small, tmp_path):
    def made(*overrides):
        trainer = rltrain.make_trainer([*small, "algo=vdn", *overrides], run_dir=tmp_path / "run")
        trainer.start()
        trainer.run(60)
        trainer.save()
        trainer.close()
        return tmp_path / "run"

    return made


def test_acting_needs_trust_for_the_network_alone(run):
    folder = run(f"algo.network._target_={OWN}.Net", f"algo.loss._target_={OWN}.Loss")
    with pytest.raises(CheckpointError, match=r"own_parts\.Net.*trust=\[tests\]"):
        rltrain.load_policy(folder)
    policy = rltrain.load_policy(folder, trust=["tests"])
    policy.reset()
    assert policy.act(torch.zeros(2, 3).numpy()).shape == (2,)


def test_a_loss_and_a_mixer_of_ones_own_need_no_trust_for_acting(run):
    folder = run(f"algo.loss._target_={OWN}.Loss", f"algo.mixer._target_={OWN}.Mean")
    assert rltrain.load_policy(folder).step >= 60
    assert rltrain.evaluate(folder, episodes=2).metrics["test/return_std"] >= 0


def test_a_run_with_an_own_part_is_resumed_with_trust(small, command):
    own = [f"algo.network._target_={OWN}.Net", "algo.network.width=4", "total_env_steps=60"]
    run_dir = rltrain.train([*small, "algo=vdn", *own]).run_dir
    with pytest.raises(CheckpointError, match=r"trust=\[tests\]"):
        command(f"resume={run_dir}", "total_env_steps=90")
    assert command(f"resume={run_dir}", "total_env_steps=90", "trust=[tests]") == 0


def test_a_model_without_parameters_is_refused(small, tmp_path):
    overrides = [*small, "algo=vdn", f"algo.network._target_={OWN}.Table"]
    with pytest.raises(UsageError, match=r"Table \(algo.network\) and Sum \(algo.mixer\) have no"):
        rltrain.make_trainer(overrides)


def test_a_loss_that_reads_no_distribution_is_refused_where_there_is_one(single, tmp_path):
    overrides = without(single, "env=", "algo.exploration", "buffer.")
    overrides += ["env=cartpole", "algo=qrdqn"]
    said = r"of which only the mean .* Type algo/distribution=scalar"
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer([*overrides, f"algo.loss._target_={OWN}.Loss"])
    with pytest.raises(UsageError, match=r"Net \(algo.network\) outputs expected returns only"):
        rltrain.make_trainer([*overrides, f"algo.network._target_={OWN}.Net"])
    own = [f"algo.network._target_={OWN}.Net", f"algo.loss._target_={OWN}.Loss"]
    trainer = rltrain.make_trainer([*overrides, *own, "algo/distribution=scalar"], run_dir=tmp_path)
    trainer.close()


class Counts:
    """Counts calls; their number is all that the part knows of the past."""

    calls = 0

    def state_dict(self):
        return {**super().state_dict(), "calls": self.calls}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.calls = state["calls"]


def counting(name, method, *bases):
    """A subclass of this name that counts the calls of a method."""

    def counted(self, *given):
        self.calls += 1
        return getattr(super(kind, self), method)(*given)

    kind = type(name, (Counts, *bases), {method: counted})
    return kind


CountingLoss = counting("CountingLoss", "__call__", own_parts.Loss, Loss)
CountingExploration = counting("CountingExploration", "choose", own_parts.Cycle, Exploration)
CountingBuffer = counting("CountingBuffer", "add", own_parts.Latest)
CountingCallback = counting("CountingCallback", "on_update", Callback)
CountingLogger = counting("CountingLogger", "write", Logger)
CountingDue = counting("CountingDue", "due", TargetUpdate)


class CountingTargetUpdate(CountingDue):
    def __init__(self):
        super().__init__(episodes=None, env_steps=None, updates=3, tau=1)


class UnrelatedTargetUpdate:
    """A class of its own."""

    tau = 1.0
    done_at = calls = 0

    def due(self, clock):
        self.calls += 1
        return False

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


class CountingEnv(own_parts.KeyedTeam):
    """Of two agents; its state is the count and the episode."""

    calls = 0

    def step(self, action):
        self.calls += 1
        return super().step(action)

    def state_dict(self):
        return {"calls": self.calls, "t": self.t, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.calls, self.t = state["calls"], state["t"]
        self.rng.bit_generator.state = state["rng"]


def counting_env(*, n_envs):
    return SyncVectorEnv(make=CountingEnv, n_envs=n_envs)


class CountingNet(own_parts.Net):
    def __init__(self, *, spec):
        super().__init__(spec=spec)
        self.register_buffer("calls", torch.zeros(()))

    def step(self, *given):
        self.calls += 1
        return super().step(*given)


class CountingMixer(own_parts.Mean):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, *given):
        self.calls += 1
        return super().forward(*given)


class CountingOptimizer:
    """Changes nothing."""

    def __init__(self, *, params):
        self.param_groups, self.state = [{"params": params, "lr": 1.0}], {}

    def step(self):
        self.state.setdefault(self.param_groups[0]["params"][0], {"calls": 0})["calls"] += 1


KEEP_STATE = {
    "algo.network": ("CountingNet", lambda t: int(t.learner.online.agents.calls)),
    "algo.mixer": ("CountingMixer", lambda t: int(t.learner.online.mixer.calls)),
    "algo.loss": ("CountingLoss", lambda t: t.learner.loss.calls),
    "algo.optimizer": (
        "CountingOptimizer",
        lambda t: [own["calls"] for own in t.learner.optimizer.state.values()],
    ),
    "algo.exploration": ("CountingExploration", lambda t: t.rollout.policy.exploration.calls),
    "algo.target_update": ("CountingTargetUpdate", lambda t: t.learner.target_update.calls),
    "algo.target_update ": ("UnrelatedTargetUpdate", lambda t: t.learner.target_update.calls),
    "buffer": ("CountingBuffer", lambda t: t.buffer.calls),
    "env": ("counting_env", lambda t: [env.calls for env in t.rollout.env.envs]),
    "callbacks": ("CountingCallback", lambda t: t.callbacks.callbacks[0].calls),
    "logger": ("CountingLogger", lambda t: loggers_of(t).loggers[-1].calls),
}
"""By the key of a part a class of one's own with state, and how to find it in a trainer."""


def loggers_of(trainer):
    return next(each.loggers for each in trainer.callbacks.callbacks if isinstance(each, Log))


def with_state(small, kind, folder):
    """A trainer with an own part of this kind."""
    part, (name, _) = kind.strip(), KEEP_STATE[kind]
    words = without(small, f"{part}.", f"{part}=", "buffer.")
    named = {"callbacks": [f"callbacks=[{{_target_: {__name__}.{name}}}]"], "logger": ["logger=[]"]}
    words += named.get(part, [f"{part}._target_={__name__}.{name}"])
    trainer = rltrain.make_trainer([*words, "algo=vdn", "log.interval=10"], run_dir=folder)
    if part == "logger":
        loggers = loggers_of(trainer)
        loggers.__init__([*loggers.loggers, CountingLogger()])
    return trainer


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kind", slow_except(("algo.loss", "algo.exploration", "env", "logger"), KEEP_STATE)
)
def test_the_state_of_every_part_of_ones_own_is_saved(small, tmp_path, kind):
    """Defect: that of an exploration, a target update and a logger was not."""
    find = KEEP_STATE[kind][1]
    trainer = with_state(small, kind, tmp_path)
    before = find(trainer)
    trainer.train()
    trainer.save("full")
    trainer.close()
    again = with_state(small, kind, tmp_path)
    again.restore(tmp_path)
    assert find(again) == find(trainer) != before
    again.close()


@pytest.mark.parametrize("kind", ["algo.loss", "algo.exploration", "algo.target_update"])
def test_a_state_that_no_checkpoint_can_hold_is_refused_at_once(small, tmp_path, monkeypatch, kind):
    """Defect: the run failed when it was to be saved."""
    monkeypatch.setattr(Counts, "calls", {1})
    with pytest.raises(UsageError, match=rf"^{kind}: the state_dict of .* \(calls: set cannot be"):
        with_state(small, kind, tmp_path)
