"""rltrain from Python, as a notebook uses it."""

import gc
import json
import os
import signal
import weakref
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.api import Result, succeeded
from rltrain.callback import Callback
from rltrain.errors import UsageError
from rltrain.report.readers.rltrain_runs import changes_task
from rltrain.types import EnvSpec
from tests.marks import slow_except


class Count(Callback):
    """Counts iterations; the count is its state."""

    def __init__(self):
        self.n = 0

    def on_iteration(self, trainer, value=None):
        self.n += 1

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


class Coin(gymnasium.Env):
    """One step; action 1 is worth 1."""

    action_space, observation_space = spaces.Discrete(2), spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, float(action), True, False, {}


DQN = {
    "algo": "dqn",
    "algo.learning_starts": 8,
    "total_env_steps": 60,
    "test": {"interval": 1000, "episodes": 2, "n_envs": 1},
    "hardware": {"n_envs": 2, "threads": 1},
    "log.interval": 20,
    "logger": {"console": False, "wandb.mode": "disabled"},
}


def test_dir_lists_the_functions_for_tab_completion():
    assert {"train", "resume", "evaluate", "load_policy", "make_trainer"} <= set(dir(rltrain))
    assert all(hasattr(rltrain, name) for name in dir(rltrain))


def test_a_result_has_the_history_of_every_metric(small):
    history = rltrain.train(small).history
    tested = history["env_steps"][~np.isnan(history["test/return_mean"])]
    assert tested[0] == 0
    assert len(tested) >= 4  # at 0, 100, 200 and the end
    assert {len(values) for values in history.values()} == {len(history["env_steps"])}


@pytest.mark.parametrize("progress", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_progress_is_what_the_command_shows(progress, capsys):
    rltrain.train({**DQN, "logger.console": True, "logger": {}}, env=Coin, progress=progress)
    assert ("Finished at 60 env steps" in capsys.readouterr().out) is progress


class Remember(Callback):
    """Keeps weak references to the buffers of runs, and ends these as it is asked to."""

    def __init__(self, error):
        self.error, self.buffers = error, []

    def on_iteration(self, trainer, value=None):
        if trainer.clock.env_steps > 20:
            self.buffers.append(weakref.ref(trainer.buffer))
            if self.error is not None:
                raise self.error


@pytest.mark.slow
@pytest.mark.parametrize("error", slow_except([ValueError], [None, ValueError, KeyboardInterrupt]))
def test_nothing_of_a_run_stays_in_memory(small, error, monkeypatch):
    """A sweep makes many in one process."""
    monkeypatch.setattr("rltrain.mode.train.gc", gc)
    gc.disable()  # it would read all that tests imported
    seen = Remember(error)
    for seed in range(2):
        with suppress(Exception, KeyboardInterrupt):
            rltrain.train([*small, "total_env_steps=40", f"seed={seed}"], callbacks=[seen])
    gc.enable()
    assert gc.get_freeze_count() == 0
    gc.collect()
    gc.freeze()
    assert len(seen.buffers) >= 2
    assert {buffer() for buffer in seen.buffers} == {None}


def test_an_environment_of_ones_own_is_trained_resumed_and_evaluated():
    result = rltrain.train(DQN, env=Coin)
    assert result.run_dir.parent.name == "dqn-own"
    assert result.metrics["test/return_mean"] in (0, 1)
    further = rltrain.resume(result.run_dir, total_env_steps=100, env=Coin)
    assert further.run_dir == result.run_dir
    assert further.history["env_steps"][-1] >= 100
    assert rltrain.evaluate(result.run_dir, episodes=1, env=Coin).metrics["test/return_mean"] < 2
    record = json.loads((result.run_dir / "evaluation.json").read_text())
    assert not any(map(changes_task, record["overrides"]))


def test_an_opponent_in_an_environment_of_ones_own_with_one_side_is_refused():
    with pytest.raises(UsageError, match="needs an environment with two sides, and env=own has"):
        rltrain.make_trainer({**DQN, "test.opponent": "random"}, env=Coin)


class OtherCoin(Coin):
    """Another environment."""


def test_an_evaluation_in_another_environment_is_no_absolute_metric_of_the_run():
    """Defect: reports took that of an environment that was passed for the run's own."""
    own = rltrain.train(DQN, env=Coin).run_dir
    rltrain.evaluate(own, episodes=1, env=OtherCoin)
    record = json.loads((own / "evaluation.json").read_text())
    assert any(map(changes_task, record["overrides"]))


ONE = EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,))


@pytest.mark.parametrize(
    ("overrides", "spec", "said"),
    [
        (["algo=qmix"], ONE, "Type algo=dqn for one agent"),
        (["algo=dqn", "algo/network=conv"], ONE, "set algo/network=mlp"),
        (["algo=qmix", "algo.network.groups=[[0]]"], replace(ONE, n_agents=2), "in exactly one"),
        (["algo=c51", "algo.distribution.v_min=1e6"], ONE, "needs v_min < v_max"),
        (["algo=dqn", "algo.network.hidden_sizes=[100_000_000_000]"], ONE, "not enough memory"),
    ],
)
def test_a_learner_is_refused_as_the_command_refuses_it(overrides, spec, said):
    with pytest.raises(UsageError, match=said):
        rltrain.make_learner(overrides, spec)


@pytest.mark.slow
def test_a_callback_object_is_called_recorded_by_name_and_takes_its_state_up(small):
    first = Count()
    result = rltrain.train(small, callbacks=[first])
    record = json.loads((result.run_dir / "config.json").read_text())
    assert record["callbacks"][0]["name"] == f"{__name__}.Count"
    second = Count()
    rltrain.resume(result.run_dir, total_env_steps=400, callbacks=[second])
    whole = Count()
    longer = [text for text in small if not text.startswith("total_env_steps")]
    rltrain.train([*longer, "total_env_steps=400"], callbacks=[whole])
    assert first.n < second.n == whole.n


class Stopped(Callback):
    """A signal after the first iteration."""

    def __init__(self, name):
        self.name = name

    def on_iteration(self, trainer, value=None):
        os.kill(os.getpid(), signal.Signals[self.name])


@pytest.mark.parametrize(
    ("name", "raised"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", SystemExit)]
)
def test_a_signal_ends_the_program_and_not_the_run_alone(small, own_folder, name, raised):
    with pytest.raises(raised):
        rltrain.train([*small, "hydra.run.dir=run"], callbacks=[Stopped(name)])
    assert json.loads((own_folder / "run/run.json").read_text())["status"] == "interrupted"
    assert (own_folder / "run/checkpoints/latest").exists()


@pytest.mark.slow
def test_a_run_with_callback_objects_does_not_go_on_without_them(small, command):
    result = rltrain.train(small, callbacks=[Count()])
    for go_on in (
        lambda: rltrain.resume(result.run_dir, total_env_steps=400),
        lambda: command(f"resume={result.run_dir}", "total_env_steps=400"),
    ):
        with pytest.raises(UsageError, match=r"Count as an object .*callbacks=\[\]"):
            go_on()
    assert rltrain.resume(result.run_dir, total_env_steps=350, callbacks=[]).exit_code == 0
    assert rltrain.evaluate(result.run_dir, episodes=1).metrics  # needs none


@pytest.mark.parametrize("given", [Count, "Count", object()])
def test_what_is_no_callback_object_is_refused(small, given, own_folder):
    with pytest.raises(UsageError, match="expected an object of a subclass of"):
        rltrain.train(small, callbacks=[given])
    assert not list(own_folder.iterdir())


def test_a_trainer_made_by_hand_takes_callback_objects(small, tmp_path):
    count = Count()
    trainer = rltrain.make_trainer(small, tmp_path, callbacks=[count])
    trainer.iterate()
    trainer.close()
    assert count.n > 0
    trainer.close()
    for use in (trainer.iterate, trainer.train, trainer.test, trainer.save, trainer.end):
        with pytest.raises(UsageError, match=r"This trainer is closed\. Make another one"):
            use()


@pytest.mark.slow
def test_the_newest_run_is_resumed_by_latest(small):
    result = rltrain.train(small)
    assert rltrain.resume("latest", 350, overrides={"log.interval": 10}).run_dir == result.run_dir


def test_a_resumed_run_keeps_its_seed(small):
    result = rltrain.train([*small, "total_env_steps=40"])
    with pytest.raises(UsageError, match="keeps its seed"):
        rltrain.resume(result.run_dir, overrides={"seed": 3})


def test_loggers_of_a_trainer_made_by_hand_are_refused(own_folder):
    """Defect: they were left out without a word."""
    with pytest.raises(UsageError, match=r"logger=\[csv\]: .* writes metrics.jsonl and nothing"):
        rltrain.make_trainer(["env=two_step", "logger=[csv]"], run_dir="run")
    assert not (own_folder / "run").exists()


REQUIRED = {
    **{name: {"path": "run"} for name in ("resume", "evaluate", "load_policy")},
    "match": {"checkpoints": ["a", "b"]},
    "make_learner": {"overrides": ["algo=dqn"], "spec": ONE},
}
FUNCTIONS = ("resume", "evaluate", "match", "train", "make_trainer", "make_learner")
"""Those with overrides."""


def call(name, **given):
    """Call a function of rltrain with these arguments and what else it requires."""
    places = [given.pop("runs")] if name == "load_runs" else []
    return getattr(rltrain, name)(*places, **(REQUIRED.get(name, {}) | given))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("train", "report.metric=y"), ("resume", "sweep.jobs=3"), ("match", "stop.hours=1")),
        ("evaluate", "total_env_steps=5"),
        *product(
            ("make_trainer", "make_learner"),
            ("report.metric=x", "match.battles=4", "hub.repo=me/model", "tune.trials=3"),
        ),
    ],
)
def test_a_key_that_only_a_mode_reads_is_refused(name, key):
    with pytest.raises(UsageError, match=f"{key}: (only for|has no effect)"):
        call(name, overrides=[key])


NO_TEXT = (None, 5, 1.5, True, ["x"], {"a": 1}, object())
NO_LIST = ("x", 5, 1.5, True, object())
WRONG = [
    *[(name, "path", x) for name in ("resume", "evaluate", "load_policy") for x in (*NO_TEXT, "")],
    *[("make_trainer", "run_dir", x) for x in (*NO_TEXT[1:], "")],
    *[("load_runs", "runs", x) for x in (*NO_TEXT, "")],
    *[("match", "checkpoints", x) for x in (*NO_LIST, None, [None, "a"], ["a", ""])],
    *[(name, "load_step", x) for name in ("evaluate", "load_policy") for x in (True, "", "x", [])],
    *[
        (name, "trust", x)
        for name in ("resume", "evaluate", "match", "load_policy")
        for x in (*NO_LIST[1:], [5])
    ],
    *[(name, "overrides", x) for name in FUNCTIONS for x in (*NO_LIST, None, [None])],
    *[("make_learner", "spec", x) for x in (*NO_TEXT, "x")],
]


@pytest.mark.parametrize(("name", "argument", "value"), WRONG, ids=lambda x: str(x)[:12])
def test_an_argument_of_the_wrong_kind_is_named(own_folder, name, argument, value):
    """Defect: most were TypeErrors from within; the path "" was the folder that one was in."""
    with pytest.raises(UsageError, match=rf"^{argument}\b.*[Ee]xpected"):
        call(name, **{argument: value})
    assert not list(own_folder.iterdir())


@pytest.mark.parametrize("places", [(), (["a", "b"],)])
def test_load_runs_needs_a_place(places):
    with pytest.raises(UsageError, match=r"expected folders of runs"):
        rltrain.load_runs(*places)


@pytest.mark.parametrize(
    ("name", "override", "given"),
    [
        *(("evaluate", f"{key}=other", {}) for key in ("checkpoint", "resume")),
        *(("evaluate", word, {}) for word in ("load_step=3", "mode=train")),
        ("evaluate", "test.episodes=2", {"episodes": 3}),
        ("evaluate", "seed=2", {"seed": 3}),
        ("evaluate", "trust=[a]", {"trust": "b"}),
        *(("resume", word, {}) for word in ("resume=other", "mode=evaluate", "mode=train")),
        ("resume", "total_env_steps=4", {"total_env_steps": 5}),
        *(("match", word, {}) for word in ("checkpoints=[a,b]", "mode=evaluate")),
        ("match", "match.battles=4", {"battles": 2}),
        *((name, "mode=evaluate", {}) for name in ("train", "make_trainer", "make_learner")),
        *((name, "resume=other", {}) for name in ("train", "make_trainer", "make_learner")),
        ("make_learner", "checkpoint=other", {}),
    ],
)
def test_an_override_contradicts_neither_function_nor_arguments(own_folder, name, override, given):
    """Defect: one of the two was left out without a word."""
    with pytest.raises(UsageError, match=r"[Ll]eave it out|leave out|use rltrain\.evaluate|PATH"):
        call(name, overrides=[override], **given)
    assert not list(own_folder.iterdir())


def test_paths_of_a_match_may_have_commas_and_quotes(monkeypatch):
    """Defect: they were split there."""
    asked = []
    monkeypatch.setattr("rltrain.api.play_match", lambda *request, loud: asked.append(request))
    paths = ["a,b", Path("it's"), "[c]", "d\\", rltrain.api.Result(Path("run, 1"))]
    rltrain.match(paths, 4, overrides=["seed=3"])
    assert asked == [(["a,b", "it's", "[c]", "d\\", "run, 1"], 4, ["seed=3"])]


def test_the_runs_of_a_report_may_be_results(small):
    result = rltrain.train([*small, "total_env_steps=20"])
    assert rltrain.load_runs(result)["run"].unique().tolist() == [str(result.run_dir)]


def test_a_failed_run_says_why_whatever_is_in_its_folder(tmp_path):
    """Defect: "The run failed: None" where its record was gone."""
    for error, said in ((ValueError("too hot"), "ValueError: too hot"), (None, "one of several")):
        with pytest.raises(RuntimeError, match=f"The run failed: {said}") as raised:
            succeeded(Result(tmp_path, exit_code=1, error=error))
        assert ("train.log" in str(raised.value)) == (tmp_path / "train.log").exists()
        (tmp_path / "train.log").touch()  # the first time the folder was deleted
