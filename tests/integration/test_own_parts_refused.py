"""Mistakes in one's own parts, files and commands are named before anything is trained."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from torch import nn

import rltrain
from rltrain.callback import Callback
from rltrain.errors import EnvError, RltrainError, StorageError, UsageError
from rltrain.interfaces import Loss, Mixer
from rltrain.mode import init, report
from rltrain.types import LossResult, Output

HERE = "tests.integration.test_own_parts_refused"
CARTPOLE = ["env=cartpole", "tuned=none", "total_env_steps=60", "test.episodes=1"]
CARTPOLE += ["algo.learning_starts=20", "hardware.n_envs=1", "hardware.threads=1"]
CARTPOLE += ["logger.console=false", "logger.wandb.mode=disabled", "log.interval=20"]


class Network(nn.Module):
    """Agents whose ``step`` returns what ``given`` makes of values and states."""

    hidden_dim, uses_last_action, draws_noise = 0, False, False

    def __init__(self, *, spec):
        super().__init__()
        self.layer = nn.Linear(spec.obs_shape[0], spec.n_actions)

    def step(self, obs, last_action, hidden):
        return self.given(self.layer(obs), hidden)

    def unroll(self, batch, start=0, stop=None):
        return Output(*self.step(batch.obs, batch.last_action, batch.obs[..., :0]))


class OneValue(Network):
    def given(self, q, hidden):
        return q.max(-1, keepdim=True).values, hidden


class NoState(Network):
    def given(self, q, hidden):
        return q


class Whole(Network):
    def given(self, q, hidden):
        return q, hidden


class Short(Whole):
    def unroll(self, batch, start=0, stop=None):
        return Output(*(x[:-1] for x in super().unroll(batch)[:2]))


class Bare(Whole):
    def unroll(self, batch, start=0, stop=None):
        return super().unroll(batch).q


class Half(Network):
    def given(self, q, hidden):
        return q.half(), hidden


class HalfState(Network):
    def given(self, q, hidden):
        return q, hidden.bfloat16()


class HalfUnroll(Whole):
    def unroll(self, batch, start=0, stop=None):
        return Output(super().unroll(batch).q.half(), batch.obs[..., :0])


class Flat(Mixer):
    n_streams = 1

    def __init__(self, *, spec):
        super().__init__()

    def forward(self, q, greedy_q, action, state):
        return q.sum(-1)


class HalfMixer(Flat):
    def forward(self, q, greedy_q, action, state):
        return q.sum(-1, keepdim=True).half()


class MeanValue(Loss):
    """The mean value as a loss, changed by ``made``."""

    def __init__(self, *, gamma=0.9, n_step=1):
        self.gamma, self.n_step = gamma, n_step

    def __call__(self, online, target, batch, clock):
        q = online.agents.unroll(batch).q
        return self.made(LossResult(q.sum(), q.numel(), q.mean((0, 2, 3)).detach(), {}))

    def made(self, result):
        return result


class Bald(MeanValue):
    def made(self, result):
        return result.loss_sum


class PerStep(MeanValue):
    def made(self, result):
        return replace(result, priority=result.priority.expand(7, -1))


class Row(MeanValue):
    def made(self, result):
        return replace(result, loss_sum=result.loss_sum.reshape(1))


class Worded(MeanValue):
    def made(self, result):
        return replace(result, metrics={"loss": "much"})


class NoInit(nn.Module):
    def __init__(self, *, spec):
        self.layer = nn.Linear(2, 2)


class Unsavable(Callback):
    def state_dict(self):
        return {"a": [object()]}


class Says(Callback):
    def on_log(self, trainer, value):
        return {**value, "text": "much"}


PARTS = {
    "network=OneValue": (
        f"algo.network={{_target_: {HERE}.OneValue}}",
        r"OneValue\.step \(algo\.network\) returned \[\(2, 1, 1\), \(2, 1, 0\)\].*\(2, 1, 2\)",
    ),
    "network=NoState": (
        f"algo.network={{_target_: {HERE}.NoState}}",
        r"NoState\.step \(algo\.network\) returned Tensor",
    ),
    "network=Short": (
        f"algo.network={{_target_: {HERE}.Short}}",
        r"Short\.unroll \(algo\.network\) returned \[\(3, 2, 1, 2\), .*\(4, 2, 1, 2\)",
    ),
    "network=Bare": (
        f"algo.network={{_target_: {HERE}.Bare}}",
        r"Bare\.unroll \(algo\.network\) returned Tensor.*rltrain\.types\.Output",
    ),
    "mixer=Flat": (
        f"algo.mixer={{_target_: {HERE}.Flat}}",
        r"Flat\.forward \(algo\.mixer\) returned \[\(3, 2\)\].*\(3, 2, 1\)",
    ),
    "network=Half": (
        f"algo.network={{_target_: {HERE}.Half}}",
        r"Half\.step \(algo\.network\) returned numbers of float16 and float32 .* of float32\.",
    ),
    "network=HalfState": (
        f"algo.network={{_target_: {HERE}.HalfState}}",
        r"HalfState\.step \(algo\.network\) returned numbers of float32 and bfloat16 ",
    ),
    "network=HalfUnroll": (
        f"algo.network={{_target_: {HERE}.HalfUnroll}}",
        r"HalfUnroll\.unroll \(algo\.network\) returned numbers of float16 and float32 ",
    ),
    "mixer=HalfMixer": (
        f"algo.mixer={{_target_: {HERE}.HalfMixer}}",
        r"HalfMixer\.forward \(algo\.mixer\) returned numbers of float16 for ",
    ),
    "network=NoInit": (
        f"algo.network={{_target_: {HERE}.NoInit}}",
        r"NoInit \(algo\.network\) cannot be built: AttributeError: cannot assign module",
    ),
    "optimizer=LBFGS": (
        "algo.optimizer={_target_: torch.optim.LBFGS}",
        r"LBFGS computes the loss several times a step.*Type algo/optimizer=adam",
    ),
    "callback=Unsavable": (
        f"callbacks=[{{_target_: {HERE}.Unsavable}}]",
        r"state_dict of .*Unsavable cannot be saved in checkpoints \(a.0: object cannot be saved",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_cannot_work_is_named_before_anything_is_trained(own_folder, name):
    word, said = PARTS[name]
    with pytest.raises(UsageError, match=said):
        rltrain.train([*CARTPOLE, word])
    assert not list(own_folder.glob("outputs/*/*/checkpoints"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Bald", r"returned Tensor: expected an rltrain\.types\.LossResult"),
        ("PerStep", r"returned priority of the shape \(7, 64\): expected one per window"),
        ("Row", r"returned loss_sum of the shape \(1,\): expected one number"),
        ("Worded", r"returned metrics\['loss'\] = 'much': expected one number"),
    ],
)
def test_a_loss_that_returns_something_else_is_named(tmp_path, name, said):
    overrides = [*CARTPOLE, f"algo.loss={{_target_: {HERE}.{name}}}"]
    trainer = rltrain.make_trainer(overrides, tmp_path)
    with pytest.raises(ValueError, match=said):
        trainer.train()


def test_metrics_of_a_hook_must_be_numbers(tmp_path):
    trainer = rltrain.make_trainer(CARTPOLE, tmp_path, callbacks=[Says()])
    with pytest.raises(UsageError, match=r"Says\.on_log returned text='much': expected numbers"):
        trainer.train()


class Raises(Callback):
    def on_iteration(self, trainer, value=None):
        raise ValueError("on purpose")


class Asks(Callback):
    def on_step(self):
        """Takes too little."""


@pytest.mark.parametrize(("name", "hook"), [("Raises", "on_iteration"), ("Asks", "on_step")])
def test_an_exception_in_a_hook_names_it(own_folder, name, hook):
    with pytest.raises(RuntimeError, match=rf"\(in {HERE}\.{name}\.{hook}\)"):
        rltrain.train([*CARTPOLE, f"callbacks=[{{_target_: {HERE}.{name}}}]"])


class Ending(gymnasium.Env):
    """One step, with a reward and a flag of any type."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)
    reward, over = 1.0, True

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, self.over, False, {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"over": "False"}, r"returned terminated='False': expected True or False"),
        ({"over": None}, r"returned terminated=None: expected True or False"),
        ({"reward": "1.0"}, r"the reward '1\.0': expected one number, .*got text"),
        ({"reward": 1e300}, r"the reward 1e\+300: expected a finite number, at most 3e\+38"),
    ],
    ids=lambda x: str(x)[:24],
)
def test_text_is_neither_a_reward_nor_a_flag(tmp_path, changes, said):
    env = type("Own", (Ending,), changes)
    overrides = [w for w in CARTPOLE if w != "env=cartpole"]
    with pytest.raises(EnvError, match=said):
        rltrain.make_trainer(["algo=dqn", *overrides], tmp_path, env=env).train()


def test_an_observation_without_numbers_is_refused():
    env = type("Own", (Ending,), {"observation_space": spaces.Box(-1, 1, (0,))})
    (problem,) = rltrain.check_env(env).problems
    assert "which have no numbers" in problem


def test_an_export_replaces_no_other(tmp_path):
    trainer = rltrain.make_trainer(CARTPOLE, tmp_path / "run")
    folder = trainer.export(tmp_path / "agent")
    with pytest.raises(UsageError, match="already exists and may belong to another agent"):
        trainer.export(tmp_path / "agent")
    assert trainer.export(tmp_path / "agent", replace=True) == folder
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        trainer.export(tmp_path / "file")
    with pytest.raises(OSError, match="file"):  # a snapshot beside training: the run continues
        trainer.export(tmp_path / "file", replace=True)
    with pytest.raises(UsageError, match="A checkpoint is full or weights, got 'mine'"):
        trainer.save("mine")


@pytest.mark.parametrize("place", ["file/data", "/proc/data"])
def test_a_dataset_that_cannot_be_written_is_refused_before_the_run(own_folder, place):
    (own_folder / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written.*dataset\.write=FOLDER"):
        rltrain.train([*CARTPOLE, f"dataset.write={place}"])
    assert not list(own_folder.glob("outputs"))


def test_a_failure_is_told_where_the_console_is_off(own_folder, capsys):
    env = type("Own", (Ending,), {"reward": float("nan")})
    overrides = [w for w in CARTPOLE if w != "env=cartpole"]
    with pytest.raises(RuntimeError):
        rltrain.train(["algo=dqn", *overrides], env=env)
    assert "returned the reward nan" in capsys.readouterr().err


WHICH = r"win_rate/\w+: no map of env\.maps and no opponent of test is named \w+"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["-m", "seed=1,2,1"], r"Two jobs of this sweep are the same, .*seed=1: .*Leave one out"),
        (["-m", "seed=1,1.0"], r"Two jobs of this sweep are the same"),
        (["-m", "env=cartpole,'cartpole'"], r"Two jobs of this sweep are the same"),
        (["-m", "seed=1,2", "hydra.run.dir=x"], r"Type hydra\.sweep\.dir=FOLDER"),
        (["mode=tune", "tune.metric=test/foo"], r"tune\.metric=test/foo: expected a metric"),
        (["stop.metric=auto", "stop.value=1"], r"stop\.metric=auto: expected a metric"),
        (["mode=tune", "tune.metric=return_mean"], r"Type tune\.metric=test/return_mean"),
        (
            ["mode=tune", "tune.metric=train/return_mean"],
            r"of tests.*tune\.metric=test/return_mean",
        ),
        (["mode=tune", "tune.metric=learn/loss"], r"metric of tests, such as test/return_mean"),
        (["mode=tune", "tune.metric=offline/is_return"], r"metric of tests"),
        (["mode=tune", "tune.metric=time/env_share"], r"metric of tests"),
        (["mode=tune", "tune.metric=episode_reward_mean"], r"Type tune\.metric=test/return_mean"),
        (["stop.metric=test/win_rate/3m", "stop.value=1"], WHICH),
        (["stop.metric=train/retrun_mean", "stop.value=1"], r"mean stop\.metric=train/return_mean"),
        (["resume=file.py"], "there is a file, which is not a run folder, at"),
    ],
    ids=lambda x: str(x),
)
def test_a_command_that_would_come_to_nothing_is_refused(own_folder, command, overrides, said):
    (own_folder / "file.py").touch()
    with pytest.raises(RltrainError, match=said):
        command(*([] if "resume" in overrides[0] else CARTPOLE), *overrides)


def test_a_project_says_where_it_lies(own_folder):
    said = init.write_project(own_folder / "a/b c", "gymnasium")
    assert "make -C 'a/b c' train" in said


def full(*arguments, **options):
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_no_half_a_project(own_folder, command, monkeypatch):
    monkeypatch.setattr(init, "put_text", full)
    with pytest.raises(StorageError, match=r"No space left on device\. Free disk space"):
        command("mode=init", "init.folder=project")
    assert not list((own_folder / "project").iterdir())


def test_a_result_stands_where_a_run_folder_is_expected(own_folder):
    result = rltrain.train(CARTPOLE)
    assert rltrain.load_policy(result).step >= 60
    assert rltrain.evaluate(result, episodes=1).metrics


def test_a_report_on_a_full_disk_says_so(own_folder, command, monkeypatch):
    rltrain.train(CARTPOLE)
    monkeypatch.setattr(report, "draw_all", full)
    with pytest.raises(StorageError, match=r"report done cannot be written: .*Free disk space"):
        command("mode=report", "runs=outputs", "report.dir=done")
