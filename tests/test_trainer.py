"""The training loop: when it acts, learns, tests and ends."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.callback import Callback, Callbacks, Due
from rltrain.errors import EnvError, UsageError
from rltrain.types import STEP_FIELDS
from tests.helpers import Failing, Penalty, rows, traced, trained, weights

SLOW = pytest.mark.slow


@pytest.mark.parametrize("n_envs", [1, 8, pytest.param(3, marks=SLOW)])
@pytest.mark.parametrize("ratio", [0.3, *(pytest.param(r, marks=SLOW) for r in (1.0, 2.5))])
def test_updates_per_episode_are_exact_in_any_number_of_envs(small, tmp_path, n_envs, ratio):
    overrides = [*small, f"hardware.n_envs={n_envs}", f"algo.updates_per_episode={ratio}"]
    trainer = rltrain.make_trainer([*overrides, "total_env_steps=400"], run_dir=tmp_path)
    trainer.run(60)
    before = trainer.clock
    trainer.run(240)
    episodes = trainer.clock.episodes - before.episodes
    assert trainer.clock.updates - before.updates == pytest.approx(ratio * episodes, abs=1)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_updates_per_env_step_are_exact(small, tmp_path, n_envs):
    overrides = ["algo.updates_per_episode=null", "algo.updates_per_env_step=0.1"]
    overrides += [f"hardware.n_envs={n_envs}"]
    trainer = rltrain.make_trainer([*small, *overrides], run_dir=tmp_path)
    trainer.run(100)
    before = trainer.clock
    trainer.run(200)
    steps = trainer.clock.env_steps - before.env_steps
    assert trainer.clock.updates - before.updates == pytest.approx(0.1 * steps, abs=1)


def test_nothing_is_owed_from_before_learning_starts(small, tmp_path):
    overrides = [w for w in small if not w.startswith("buffer.capacity")]
    overrides += ["buffer.capacity=500", "algo.learning_starts=150"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    trainer.run(120)
    assert trainer.clock.updates == 0
    before = trainer.clock
    trainer.run(220)
    assert 0 < trainer.clock.updates <= trainer.clock.episodes - before.episodes


@pytest.mark.slow
def test_a_full_replay_learns_though_it_cannot_hold_learning_starts(small, tmp_path):
    trainer = rltrain.make_trainer([*small, "algo.learning_starts=300"], run_dir=tmp_path)
    trainer.run(270)
    assert trainer.buffer.full
    assert trainer.clock.updates > 0


def test_due_fires_at_the_first_look_at_or_after_each_multiple():
    due = Due(10)
    assert [now for now in (0, 3, 9, 12, 15, 19, 20, 55, 59, 60) if due(now)] == [0, 12, 20, 55, 60]


@pytest.mark.parametrize(
    ("interval", "fires"), [(10, [40, 50]), (5, [35, 40, 45, 50]), (20, [40]), (100, [])]
)
def test_a_resumed_run_may_change_an_interval(interval, fires):
    """Defect: the new one began with the next multiple of the old one."""
    before, due = Due(10), Due(interval)
    assert [now for now in range(33) if before(now)] == [0, 10, 20, 30]
    due.load_state_dict(before.state_dict())
    assert [now for now in range(33, 52) if due(now)] == fires


def test_tests_rows_and_checkpoints_follow_the_intervals_of_the_resume(small, tmp_path):
    """Defect: they followed those that the run had begun with until their next multiple."""
    rare = [w for w in small if ".interval" not in w]
    rare += [f"{key}.interval=100000" for key in ("test", "log", "save")]
    run = rltrain.train([*rare, "total_env_steps=40", f"hydra.run.dir={tmp_path}/run"])
    often = [f"{key}.interval=50" for key in ("test", "log", "save")]
    history = rltrain.resume(run, total_env_steps=160, overrides=often).history
    for metric in ("test/return_mean", "train/return_mean"):
        at = history["env_steps"][~np.isnan(history[metric])]
        assert {1, 2, 3} <= set(at // 50)


def test_a_run_ends_at_the_first_iteration_with_enough_steps(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.train()
    assert 150 <= trainer.clock.env_steps < 150 + 3 * 8


@pytest.mark.slow
def test_a_run_driven_by_hand_leaves_a_run_folder(small, tmp_path, command):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path / "run")
    assert not any((tmp_path / "run").iterdir())
    trainer.iterate()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["status"], record["final_test"]["env_steps"]) == ("running", 0)
    assert record["plan"]["n_envs"] == {"training": 3, "tests": 2}
    trainer.train()
    trainer.close()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["status"], record["env_steps"]) == ("finished", trainer.clock.env_steps)
    assert len(rows(trainer, "test/return_mean")) == 4
    assert command(f"resume={tmp_path / 'run'}", "total_env_steps=200") == 0


def test_what_goes_wrong_is_in_the_record(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.callbacks = Callbacks([*trainer.callbacks.callbacks, Failing()])
    with pytest.raises(ZeroDivisionError):
        trainer.iterate()
    record = json.loads((tmp_path / "run.json").read_text())
    said = "ZeroDivisionError: on purpose (in tests.helpers.Failing.on_iteration)"
    assert (record["status"], record["error"]) == ("failed", said)


@pytest.mark.parametrize("how", ["iterate", "train"])
def test_callbacks_hear_of_what_goes_wrong(small, tmp_path, how):
    heard = []

    class Listener(Callback):
        def on_exception(self, trainer, value):
            heard.append(value)
            return value

    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.callbacks = Callbacks([Listener(), Failing()])
    with pytest.raises(ZeroDivisionError) as raised:
        getattr(trainer, how)()
    assert heard == [raised.value]


def test_iterate_says_when_the_run_is_over_and_why(small, tmp_path):
    trainer = rltrain.make_trainer([*small, "total_env_steps=50"], run_dir=tmp_path)
    first, second = trainer.iterate(), trainer.iterate()
    assert (first["done"], second["done"], second["stopped"]) == (False, True, None)
    assert (first["iteration"], second["iteration"]) == (1, 2)
    assert 0 < second["seconds_this_iteration"] < second["seconds"]
    resumed = rltrain.make_trainer(small, run_dir=tmp_path / "resumed")
    resumed.restore(trainer.save())
    assert resumed.iterate()["iteration"] == 3
    overrides = [*small, "stop.metric=test/return_mean", "stop.value=-1"]
    result = rltrain.make_trainer(overrides, run_dir=tmp_path / "stopped").iterate()
    assert result["done"]
    assert "test/return_mean" in result["stopped"]


def test_iterate_ends_the_run_at_total_env_steps_as_train_does(small, tmp_path):
    trainer, trace = traced([*small, "test.interval=1000"], tmp_path)
    done = False
    while not done:
        done = trainer.iterate()["done"]
    steps = trainer.clock.env_steps
    assert 150 <= steps < 150 + 3 * 8
    assert trace.tests == [0, steps]
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "finished"
    assert (tmp_path / "checkpoints/latest").read_text().strip() == str(steps)
    again = trainer.iterate()
    assert (again["done"], again["env_steps"]) == (True, steps)
    trainer.train()
    assert trace.tests == [0, steps]


@pytest.mark.slow
def test_pqn_teaches_a_team_with_a_sum_of_values(small, tmp_path):
    """VDN's choice in the two-step game is the safe branch, worth 7 (Rashid et al. 2018, 5)."""
    kept = [w for w in small if not w.startswith(("buffer.", "algo.batch_size", "total_env"))]
    overrides = [*kept, "algo=pqn", "algo/mixer=sum", "algo.batch_size=32"]
    overrides += ["algo.optimizer.lr=3e-3"]
    overrides += ["algo.steps_per_collect=32", "algo.exploration.end=1", "test.interval=1_000_000"]
    trainer = trained(overrides, tmp_path, 4_000)
    assert trainer.learner.online.mixer.n_streams == 1
    assert trainer.test()["test/return_mean"] == 7


def test_episodes_get_the_priorities_of_their_updates(small, tmp_path):
    trainer = trained([*small, "buffer=prioritized_episode"], tmp_path, 60)
    priorities = trainer.buffer.priorities.tree.nodes[trainer.buffer.priorities.tree.offset :]
    assert trainer.clock.updates > 0
    assert len(set(priorities.tolist())) > 2  # none, and that of an episode without an update


def test_iterate_runs_one_log_interval_and_returns_results(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    result = trainer.iterate()
    assert 25 <= result["env_steps"] < 25 + 3 * 8
    names = {"updates", "episodes", "seconds", "train/return_mean", "test/return_mean"}
    assert names <= set(result)
    trainer.close()


def test_the_same_seed_gives_the_same_bytes(small, tmp_path):
    one, two = (trained(small, tmp_path / name, 75) for name in "ab")
    assert torch.equal(weights(one), weights(two))
    other = trained([*small, "seed=1"], tmp_path / "c", 75)
    assert not torch.equal(weights(one), weights(other))


@pytest.mark.slow
def test_noise_of_networks_comes_from_the_seed_too(small, tmp_path):
    overrides = [*small, "algo=dqn", "algo.network.noisy_sigma=0.5", "algo.learning_starts=20"]
    one, two = (trained(overrides, tmp_path / name, 60) for name in "ab")
    assert torch.equal(weights(one), weights(two))


@pytest.mark.slow
def test_saving_and_logging_do_not_change_training(small, tmp_path):
    plain = trained([*small, "save.interval=100000"], tmp_path / "a")
    busy = trained([*small, "save.interval=50", "log.interval=10"], tmp_path / "b")
    assert torch.equal(weights(plain), weights(busy))


def test_user_operators_change_what_is_stored_but_not_what_is_reported(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.callbacks = Callbacks([Penalty(), *trainer.callbacks.callbacks])
    result = trainer.iterate()
    assert result["train/return_mean"] >= 0
    assert result["learn/target_mean"] < -50


def test_what_was_played_is_counted_whatever_is_stored(small, tmp_path):
    """Defect: the clock counted what callbacks stored, and a resume found more episodes in the
    metrics than on the clock.
    """

    class Half(Callback):
        env_steps = 0

        def on_collect(self, trainer, value):
            self.env_steps += value.env_steps
            n = len(value.last) // 2
            part = {name: getattr(value, name)[:n] for name in STEP_FIELDS}
            return replace(value, **part, episodes=())

    trainer = rltrain.make_trainer([*small, "log.interval=1000"], run_dir=tmp_path)
    half = Half()
    trainer.callbacks = Callbacks([half, *trainer.callbacks.callbacks])
    trainer.run(100)
    assert trainer.clock.env_steps == half.env_steps
    assert trainer.clock.episodes == trainer.metrics.counts["train/return_mean"] > 0


def test_only_hooks_that_are_defined_are_called(monkeypatch):
    class Quiet(Callback):
        """Defines nothing."""

    monkeypatch.setattr(Callback, "on_batch", None)  # a call would fail
    assert Callbacks([Quiet()]).on_batch(None, 1) == 1


def test_stop_ends_a_run_when_a_metric_is_reached(small, tmp_path):
    overrides = [*small, "stop.metric=test/return_mean", "stop.value=0", "total_env_steps=100000"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    trainer.train()
    assert trainer.clock.env_steps < 100
    assert trainer.stopping.startswith("test/return_mean reached")
    for no_reason in (None, 3):  # defect: the first did nothing, the second failed at the end
        with pytest.raises(UsageError, match="expected the reason, such as 'solved'"):
            trainer.stop(no_reason)


def test_a_stored_episode_unrolled_in_the_learner_gives_what_the_actor_saw(small, tmp_path):
    overrides = [w for w in small if not w.startswith(("env=", "hardware.n_envs"))]
    overrides += ["env=smac", "hardware.n_envs=1", "algo.learning_starts=1000000"]
    trainer = rltrain.make_trainer([*overrides, "algo.batch_size=1"], run_dir=tmp_path)
    policy, seen = trainer.rollout.policy, []
    values = policy.values

    def remember(agents, obs, hidden):
        q, after = values(agents, obs, hidden)
        seen.append(q)
        return q, after

    policy.values = remember
    while trainer.clock.episodes == 0:
        trainer.run(trainer.clock.env_steps + 1)
    batch = trainer.buffer.sample(1, trainer.clock)
    with torch.no_grad():
        q = trainer.learner.online.agents.unroll(batch).q[:, 0]  # [T+1, N, A]
    assert len(q) > 10
    np.testing.assert_allclose(q.numpy(), np.concatenate(seen)[: len(q)], atol=1e-5)


def test_a_broken_environment_is_named_as_such(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)

    def broken(action):
        raise OSError("the game is gone")

    trainer.rollout.env.step = broken
    with pytest.raises(EnvError, match=r"step.*the game is gone") as caught:
        trainer.run(50)
    assert caught.value.exit_code == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algo", ["noisy", "iqn", pytest.param("rainbow", marks=SLOW)])
def test_what_else_draws_from_torch_between_iterations_changes_nothing(single, tmp_path, algo):
    """Defect: trainers of one process drew noise and quantile levels from one stream."""
    single = [word for word in single if algo == "iqn" or "exploration" not in word]
    single += ["total_env_steps=60", "algo.learning_starts=8"]

    def make(name, seed=1):
        return rltrain.make_trainer([f"algo={algo}", *single, f"seed={seed}"], tmp_path / name)

    alone, other, among = make("alone"), make("other", 2), make("among")
    found = []
    for between in (lambda: None, other.iterate):
        trainer = among if found else alone
        while not trainer.iterate()["done"]:
            between()
        drawn = trainer.compute_actions(np.full((20, 2, 3), 0.1), explore=True)
        found.append((weights(trainer).tolist(), drawn.tolist(), trainer.state_dict()["torch_rng"]))
        torch.rand(3)
    (*ours, one), (*theirs, two) = found
    assert ours == theirs
    assert torch.equal(one, two)


def test_a_trainer_leaves_the_torch_generator_of_its_caller_as_it_was(single, tmp_path):
    before = torch.get_rng_state()
    trainer = rltrain.make_trainer(["algo=iqn", *single, "algo.learning_starts=8"], tmp_path)
    trainer.iterate()
    trainer.restore(trainer.save())
    trainer.test()
    trainer.play(2)
    assert torch.equal(torch.get_rng_state(), before)
    with trainer.random:
        assert not torch.equal(torch.get_rng_state(), before)
