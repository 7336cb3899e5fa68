"""What a machine, a program, an environment or a callback sets for the whole process changes no
result: the clock, PyTorch's settings. Memory does not grow.
"""

import gc
import itertools
import time
from functools import cache

import numpy as np
import psutil
import pytest
import torch
from gymnasium import spaces

import rltrain
from benchmarks.faults.runs import result_of
from rltrain.callback import Callback
from rltrain.common.machine import torch_settings
from rltrain.common.machine.torch_settings import EnvContext, read_settings
from rltrain.types import Drawing
from tests.env.scripted import Plain
from tests.helpers import json_lines, over

WORDS = [
    *("total_env_steps=40", "test.interval=20", "test.episodes=1", "algo.learning_starts=10"),
    *("algo.batch_size=4", "buffer.capacity=100", "hardware.n_envs=2", "hardware.threads=1"),
    *("hardware.kernels=torch", "logger=[]", "logger.console=false"),
]
CHANGES = (
    lambda: torch.set_grad_enabled(False),
    lambda: torch.set_default_dtype(torch.float64),
    lambda: torch.set_default_device("meta"),
    lambda: torch.set_autocast_enabled("cpu", True),
    lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    lambda: torch.use_deterministic_algorithms(True),
    lambda: torch.set_num_threads(1),
    lambda: torch.manual_seed(0),
)
CONTEXTS = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "device": lambda: torch.device("meta"),
    "inference": torch.inference_mode,
}
RECORDS = {"render": ["test.video_interval=20"]}
RECORDS["drawing"] = [*RECORDS["render"], "test.record=html"]
DRAWING = Drawing({"bounds": [0, 0, 1, 1]}, [{}], {"x": np.zeros(1), "y": np.zeros(1)})


class Setting(Plain):
    """Makes the ``CHANGES`` ``when`` a method is called; notes whether they last."""

    observation_space, when, kept = spaces.Box(-1, 1, (2,)), "", []

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.change("make")

    def render(self):
        self.change("render")
        return np.zeros((4, 4, 3), np.uint8)

    def drawing(self):
        self.change("drawing")
        return DRAWING

    def change(self, now):
        if self.when == now:
            for change in CHANGES:
                change()

    def reset(self, **options):
        self.change("reset")
        return super().reset(**options)

    def step(self, action):
        self.kept.append(read_settings())
        self.change("step")
        return super().step(action)

    def seen(self):
        return self.np_random.random(2, dtype="float32")


@pytest.fixture(autouse=True)
def as_before():
    """PyTorch's settings are not those of the next test."""
    before = read_settings()
    yield
    torch.autograd.set_detect_anomaly(False)
    torch.use_deterministic_algorithms(False)
    EnvContext.settings.inside.clear()
    for change, value in zip(torch_settings.CHANGES, before, strict=True):
        change(value)


def trained(folder, callbacks=(), words=(), **members):
    """Weights after training."""
    env = type("Own", (Setting,), {**members, "kept": (kept := [])})
    trainer = rltrain.make_trainer(
        ["algo=noisy", *WORDS, *words], run_dir=folder, env=env, callbacks=callbacks
    )
    trainer.train()
    trainer.close()
    assert trainer.clock.updates > 0
    weights = trainer.learner.state_dict()["online"]
    return {name: value.tolist() for name, value in weights.items()}, kept


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The folder of a run without changes and its weights, by further overrides."""

    def made(*words):
        folder = tmp_path_factory.mktemp("plain")
        return folder, trained(folder, words=words)[0]

    return cache(made)


@pytest.mark.parametrize("when", ["make", "reset", "step", *RECORDS])
def test_what_an_environment_sets_holds_for_environments_alone(plain, tmp_path, when):
    """Defect: networks were not trained, or refused as the user's own."""
    before, words = read_settings(), RECORDS.get(when, ())
    _, expected = plain(*words)
    found, kept = trained(tmp_path / "set", words=words, when=when)
    assert found == expected
    assert read_settings() == before
    assert when in RECORDS or not any(
        now[0] for now in kept[2:]
    )  # both environments have made a step


class NoGradients(Callback):
    """Disables gradients before every step."""

    def on_batch(self, trainer, batch):
        torch.set_grad_enabled(False)
        return batch


def test_gradients_are_computed_even_if_a_callback_disables_them(plain, tmp_path):
    assert trained(tmp_path / "set", [NoGradients()])[0] == plain()[1]


@pytest.mark.parametrize("i", range(5))
def test_what_the_program_sets_holds_for_its_environments_alone(plain, tmp_path, i):
    """Defect: with float64, runs and programs of float32 could not be loaded by each other."""

    def tested(run):
        own = type("Own", (Setting,), {"kept": []})
        return rltrain.evaluate(run, 2, env=own, overrides={"hardware.threads": 1}).metrics

    run, expected = plain()
    test = tested(run)
    CHANGES[i]()
    before = read_settings()
    found, kept = trained(tmp_path / "set")
    assert found == expected
    for folder in (run, tmp_path / "set"):
        assert tested(folder) == test
        assert rltrain.load_policy(folder).policy.agents.state_dict().keys()
    assert set(kept) == {before} == {read_settings()}
    assert not EnvContext.settings.inside


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_a_context_of_the_program_changes_nothing(plain, tmp_path, context):
    """Defect: raw errors of PyTorch about bfloat16 and meta tensors."""
    run, expected = plain()
    policy, obs = rltrain.load_policy(run), np.zeros((1, 2), np.float32)
    action = policy.act(obs)
    with context():
        assert trained(tmp_path / "within")[0] == expected
        assert policy.act(obs) == action


def test_environments_that_seed_pytorch_have_a_stream_for_each_trainer(tmp_path):
    """A trainer that is driven between the steps of another one does not seed it."""

    class Drawing(Setting):
        def reset(self, *, seed=None, options=None):
            torch.manual_seed(seed)
            return super().reset(seed=seed)

        def seen(self):
            return torch.rand(2).numpy()

    def weights(*folders):
        words = over(WORDS, "algo=dqn", "log.interval=10", "hardware.n_envs=1")
        trainers = [rltrain.make_trainer(words, f, env=Drawing) for f in folders]
        for _ in range(4):
            for trainer in trainers:
                trainer.iterate()
        return [str(t.learner.state_dict()["online"]) for t in trainers]

    (alone,) = weights(tmp_path / "alone")
    assert weights(tmp_path / "a", tmp_path / "b") == [alone] * 2


def test_a_clock_that_jumps_by_an_hour_changes_neither_results_nor_durations(
    command, small, own_folder, monkeypatch
):
    words = [*small, "total_env_steps=60"]
    assert command(*words, "hydra.run.dir=steady") == 0
    real, jumps = time.time, itertools.cycle([0, 3600, -3600, -7200])
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    assert command(*words, "hydra.run.dir=jumping") == 0
    assert result_of(own_folder / "jumping") == result_of(own_folder / "steady")
    seconds = [row["seconds"] for row in json_lines(own_folder / "jumping/metrics.jsonl")]
    assert sorted(seconds) == seconds
    assert 0 <= seconds[0] <= seconds[-1] < 600


LONG = ["logger.console=false", "logger.wandb.mode=disabled", "hardware.threads=1"]
LONG += ["test.n_envs=4", "test.episodes=4", "test.interval=1_000", "save.interval=1_000"]
CARTPOLE = ["algo=dqn", "env=cartpole", "buffer.capacity=1_000"]
TEAM = ["algo=qmix", "env=smac", "buffer.capacity=48"]


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [CARTPOLE, TEAM], ids=["dqn", "qmix"])
def test_memory_does_not_grow_after_warm_up(overrides, tmp_path):
    """Tests, checkpoints and rows of metrics included: less than 40 bytes per env step, a sixth of
    what keeping the observations of 3m would take."""
    trainer = rltrain.make_trainer([*overrides, *LONG, "log.interval=200"], run_dir=tmp_path)
    trainer.start()
    process, env_steps, used = psutil.Process(), [], []
    for until in range(6_000, 18_000, 500):
        trainer.run(until)
        gc.collect()
        env_steps.append(trainer.clock.env_steps)
        used.append(process.memory_info().rss)
    trainer.close()
    slope, _ = np.polyfit(env_steps, used, 1)
    assert slope < 40
