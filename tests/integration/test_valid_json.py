"""Every JSON file is one that any parser reads, also where numbers are NaN or infinite."""

import json
import math
import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import rltrain
from rltrain.callback import Callback
from rltrain.common import checkpoint
from rltrain.common.json_text import json_text
from rltrain.config.compose import compose_checked
from rltrain.errors import EnvError, UsageError
from rltrain.main import run
from tests.env.scripted import Sampled
from tests.mode.match.test_match import MAP, words

SMALL = (
    *("algo=dqn", "hardware.threads=1", "hardware.n_envs=2", "total_env_steps=60", "tuned=none"),
    *("test.interval=30", "test.episodes=2", "save.interval=30", "log.interval=15", "logger=[]"),
    *("algo.learning_starts=20", "algo.batch_size=8", "buffer.capacity=40"),
)


class Unmeasured(Sampled):
    """Episodes of three steps, whose metrics are not finite numbers."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    length = 3

    def step(self, action):
        *others, _ = super().step(action)
        metrics = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.0}
        return *others, {"metrics": metrics} if self.t == 3 else {}


class Remembering(Callback):
    """Has what is not a finite number in its state, and in the metrics."""

    def on_iteration(self, trainer, value=None):
        trainer.metrics.add("custom", {"e": math.nan})

    def on_test_end(self, trainer, value):
        return {**value, "test/f": math.nan, "test/g": math.inf}

    def state_dict(self):
        return {"seen": [math.nan, math.inf, -math.inf, np.float32(math.nan), 1.0]}

    def load_state_dict(self, state):
        assert str(state["seen"]) == "[nan, inf, -inf, nan, 1.0]"


def fail(constant):
    raise AssertionError(constant)


def require_valid(folder):
    """Read all JSON files below a folder."""
    files = [*folder.rglob("*.json")]
    for path in files:
        try:
            json.loads(path.read_text(), parse_constant=fail)
        except AssertionError as error:
            raise AssertionError(f"{path} has {error}") from error
    for path in folder.rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            json.loads(line, parse_constant=fail)
    return {path.name for path in files}


@pytest.mark.slow
def test_files_of_runs_and_evaluations_have_no_nan(own_folder):
    given = {"env": Unmeasured, "callbacks": [Remembering()], "progress": False}
    result = rltrain.train([*SMALL, "hydra.run.dir=run"], **given)
    record = json.loads(Path("run/run.json").read_text())
    assert record["final_test"]["test/a_mean"] is record["best_test"]["test/f"] is None
    assert math.isnan(result.metrics["test/a_mean"])
    rltrain.resume("run", 90, **given)  # reads them again
    record = json.loads(Path("run/run.json").read_text())
    assert record["status"] == "finished"
    played = rltrain.evaluate("run", episodes=2, env=Unmeasured)
    assert played.metrics["test/b_mean"] == math.inf
    assert json.loads(Path("run/evaluation.json").read_text())["metrics"]["test/b_mean"] is None
    rltrain.evaluate("run", episodes=2, env=Unmeasured, load_step="all")
    assert require_valid(own_folder) >= {"run.json", "evaluation.json", "trainer.json"}


class Replacing(Unmeasured):
    """Reports a return of its own."""

    def step(self, action):
        *others, info = super().step(action)
        return *others, {"metrics": {"return": 100.0}} if info else {}


def test_a_return_of_the_environments_own_ends_a_run_and_an_evaluation(own_folder):
    given = {"env": Replacing, "progress": False}
    with pytest.raises(RuntimeError, match=r"EnvError: .*with return, which would replace"):
        rltrain.train([*SMALL, "test.interval=1000", "hydra.run.dir=run"], **given)
    assert json.loads(Path("run/run.json").read_text())["exit_code"] == 4
    rltrain.train([*SMALL, "hydra.run.dir=fine"], env=Unmeasured, progress=False)
    with pytest.raises(EnvError, match="with return, which would replace"):
        rltrain.evaluate("fine", episodes=2, env=Replacing)


@pytest.mark.slow
@pytest.mark.usefixtures("figures_not_drawn")
def test_files_of_sweeps_and_matches_have_no_nan(own_folder, monkeypatch, small):
    monkeypatch.setattr(
        "rltrain.periodic_tests.summarize",
        lambda episodes: {"test/return_mean": math.nan, "test/return_std": math.inf},
    )
    assert run([*small, "algo=iql", "hydra.run.dir=multirun/0_a"]) == 0
    assert run(words("closest, builtin", 2, *MAP)) == 0
    assert run(["mode=report", "runs=multirun", "report.dir=report"]) == 0
    assert require_valid(own_folder) >= {"run.json", "match.json"}
    text = Path("multirun/0_a/run.json").read_text()
    assert json.loads(text)["final_test"]["test/return_mean"] is None


def test_a_tests_nan_of_an_earlier_version_is_kept_as_nan(trained):
    path = trained / "run.json"
    record = json.loads(path.read_text())
    record["final_test"]["test/return_mean"] = math.nan
    record["best_test"] |= {"test/return_mean": None, "test/win_rate": math.inf}
    path.write_text(json.dumps(record))
    assert run([f"resume={trained}", "total_env_steps=165"]) == 0
    require_valid(trained)


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")])
def test_a_state_with_numbers_that_are_not_finite_comes_back(own_folder, x):
    checkpoint.write(own_folder / "c", 1, {"trainer": {"x": [x, {"y": x}], "z": None}})
    require_valid(own_folder)
    back = checkpoint.read(own_folder / "c" / "1", "trainer")
    assert str(back) == str({"x": [float(x), {"y": float(x)}], "z": None})
    shutil.rmtree(own_folder / "c")


class Bounded(Callback):
    """Has a setting with an infinite default."""

    def __init__(self, *, most: float = math.inf):
        self.most = most


CARTPOLE = ("algo=dqn", "env=cartpole", "logger=[]")
BOUNDED = f"callbacks=[{{_target_: {__name__}.Bounded, most: @}}]"


@pytest.mark.parametrize("x", ["inf", "-inf", "nan"])
@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("env.kwargs={x: @}", "env.kwargs={x: @}"),
        ("+env.kwargs.x=[1,{y: @}]", "env.kwargs={x: [1, {y: @}]}"),
        ("+test.env.kwargs={x: @}", "test.env.kwargs={x: @}"),
        ("algo.loss.gamma=@", "algo.loss.gamma=@"),
        ("+algo.optimizer.x=@", "algo.optimizer.x=@"),
        ("+logger.wandb.config={x: @}", "logger.wandb.config={x: @}"),
        (BOUNDED, "callbacks[0].most=@"),
    ],
)
def test_a_setting_that_json_does_not_hold_is_refused(own_folder, word, named, x):
    logger = ["logger=wandb"] if "wandb" in word else []
    with pytest.raises(UsageError, match=r"expected (finite numbers|a number)") as refused:
        run([*CARTPOLE[: 3 - len(logger)], *logger, word.replace("@", x)])
    assert f"{named.replace('@', x)}: expected" in str(refused.value)


def test_a_default_that_json_does_not_hold_is_not_recorded():
    words = [*CARTPOLE, BOUNDED.replace(", most: @", "")]
    record = compose_checked(words).settings().record
    assert json.loads(json.dumps(record, allow_nan=False))["callbacks"][0] == {
        "_target_": f"{__name__}.Bounded"
    }


def test_nan_and_infinity_are_null_at_any_depth():
    value = {"a": [math.nan, (math.inf, {"b": -math.inf})], "c": 1.0, "d": "nan", "e": None}
    plain = json.loads(json_text(value), parse_constant=fail)
    assert plain == {"a": [None, [None, {"b": None}]], "c": 1.0, "d": "nan", "e": None}
