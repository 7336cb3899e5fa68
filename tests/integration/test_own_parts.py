"""Parts of a user's own: they train, are saved, resumed and loaded; what they lack is named."""

import pytest
import torch

import rltrain
from rltrain.algo.loss.td import TDLoss
from rltrain.api import settings_from
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.messages.closing import to_trust

OWN = "tests.integration.own_parts"


def words_for(small, part, name, *more):
    kept = [w for w in small if not w.startswith((f"{part}.", "buffer.", "algo.exploration."))]
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


@pytest.mark.parametrize(("part", "name", "word"), TRAINS)
def test_a_part_of_ones_own_trains(small, tmp_path, part, name, word):
    trainer = rltrain.make_trainer(words_for(small, part, name, word), run_dir=tmp_path)
    trainer.run(40)
    trainer.test(episodes=2)
    trainer.close()
    assert trainer.clock.updates > 0


@pytest.mark.slow
def test_the_commands_that_a_run_ends_with_trust_its_parts(small):
    assert to_trust(settings_from(words_for(small, "algo.mixer", "Mean"))) == "tests"
    assert to_trust(settings_from([*small, "algo=qmix"])) is None
    adamw = "algo.optimizer={_target_: torch.optim.AdamW, lr: 5e-4}"
    own_env = ["algo=dqn", "env=gymnasium", "env.id=mine:Walk-v0", adamw]
    assert to_trust(settings_from(own_env)) == "mine,torch"


LACKS = [
    ("algo.loss", "LossWithoutSteps", r"\(algo.loss\) lacks n_step \(rewards summed"),
    ("algo.network", "NoHiddenDim", r"\(algo.network\) lacks hidden_dim \(size of the recurrent"),
    ("algo.network", "NotAModule", r"NotAModule \(algo.network\): expected a torch.nn.Module"),
    ("algo.mixer", "LazyMean", r"LazyMean \(algo.mixer\): the size of bias.weight is not known"),
    ("algo.mixer", "MeanWithoutStreams", r"lacks n_streams \(M, value streams"),
    ("algo.exploration", "NoExploration", r"\(algo.exploration\) lacks choose"),
    ("buffer", "Half", r"Half \(buffer\) lacks plan; ready; sample; state_dict; load_state_dict"),
    ("algo.optimizer", "NotAnOptimizer", r"lacks param_groups .*; state .*; step"),
    ("env", "SingleEnv", r"SingleEnv \(env\) is a single environment: .* env=gymnasium env.id="),
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


def test_a_loss_that_reads_no_distribution_is_refused_where_there_is_one(small, tmp_path):
    overrides = [w for w in small if not w.startswith(("env=", "algo.exploration", "buffer."))]
    overrides += ["env=cartpole", "algo=qrdqn"]
    with pytest.raises(
        UsageError, match=r"of which only the mean .* Type algo/distribution=scalar"
    ):
        rltrain.make_trainer([*overrides, f"algo.loss._target_={OWN}.Loss"])
    with pytest.raises(UsageError, match=r"Net \(algo.network\) outputs expected returns only"):
        rltrain.make_trainer([*overrides, f"algo.network._target_={OWN}.Net"])
    own = [f"algo.network._target_={OWN}.Net", f"algo.loss._target_={OWN}.Loss"]
    trainer = rltrain.make_trainer([*overrides, *own, "algo/distribution=scalar"], run_dir=tmp_path)
    trainer.close()


class Counting(TDLoss):
    """Counts its calls."""

    def __init__(self, *, gamma=0.9, n_step=1):
        super().__init__(gamma=gamma, n_step=n_step, double=True)
        self.calls = 0

    def __call__(self, *given):
        self.calls += 1
        return super().__call__(*given)

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


def test_the_state_of_a_loss_of_ones_own_is_saved(small, tmp_path):
    words = [w for w in small if not w.startswith("algo.loss.")]
    words += ["algo=vdn", f"algo.loss={{_target_: {__name__}.Counting}}"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path)
    trainer.run(60)
    calls = trainer.learner.loss.calls
    trainer.save("full")
    trainer.close()
    assert calls > 0
    again = rltrain.make_trainer(words, run_dir=tmp_path)
    again.restore(tmp_path)
    assert again.learner.loss.calls == calls
    again.close()
