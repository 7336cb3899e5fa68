"""Learning from a dataset: the pace, what is read, resumption, refusals, a game that is solved."""

import os
import shutil
from contextlib import closing
from unittest.mock import patch

import gymnasium
import numpy as np
import pytest
import torch

import rltrain
from rltrain import main as entry
from rltrain.buffer import ReplayBuffer
from rltrain.callback import Callbacks
from rltrain.errors import RltrainError, UsageError
from rltrain.offline import offline_trainer
from rltrain.offline.shards import INDEX, shard_name
from tests.conftest import SMALL
from tests.env.scripted import Plain
from tests.helpers import Penalty, trained, weights
from tests.offline.conftest import record, without
from tests.offline.hand_made import change_index


@pytest.fixture(scope="module")
def balanced(tmp_path_factory):
    """Some 15 random episodes of CartPole."""
    overrides = [*without(SMALL, "buffer.", "env=", "algo.exploration.")]
    overrides += ["env=cartpole", "algo=dqn", "test.n_envs=1"]
    return record(overrides, tmp_path_factory.mktemp("cartpole"), 350)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "ignored", [["algo.learning_starts=1000000"], ["algo/exploration=greedy"]], ids=" ".join
)
def test_what_only_acting_reads_changes_nothing(offline, tmp_path, ignored):
    """Defect: algo.learning_starts above buffer.capacity was refused."""
    offline = without(offline, "algo.exploration.")
    found = []
    for overrides in (offline, [*offline, *ignored]):
        trainer = rltrain.make_trainer(overrides, run_dir=tmp_path / str(len(found)))
        trainer.run(60)
        found.append((trainer.clock, weights(trainer)))
        trainer.close()
    (clock, plain), (other_clock, other) = found
    assert clock == other_clock
    assert clock.updates > 0
    assert torch.equal(plain, other)


@pytest.mark.slow
def test_a_share_below_one_episode_is_told(offline, tmp_path, caplog):
    rltrain.make_trainer([*offline, "dataset.held_out=0.001"], run_dir=tmp_path / "run").close()
    assert "less than one: nothing is held out" in caplog.text


@pytest.mark.parametrize("n_envs", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(("per_step", "per_episode", "total"), [(0.25, None, 60), (None, 0.3, 36)])
def test_gradient_steps_follow_from_env_steps_alone(
    offline, tmp_path, n_envs, per_step, per_episode, total
):
    overrides = [*offline, f"hardware.n_envs={n_envs}"]
    overrides += [f"algo.updates_per_env_step={'null' if per_step is None else per_step}"]
    overrides += [f"algo.updates_per_episode={'null' if per_episode is None else per_episode}"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path / "run")
    trainer.run(240)
    assert trainer.clock.env_steps == 240  # 30 iterations of one copy, 10 of three
    assert trainer.clock.episodes == 120  # two steps each
    assert trainer.clock.updates == total


def test_a_replay_that_holds_the_dataset_is_filled_once(offline, tmp_path):
    trainer = rltrain.make_trainer([*offline, "dataset.held_out=0.25"], run_dir=tmp_path / "run")
    n_chosen = len(trainer.reader.chosen)
    trainer.run(100)
    assert (trainer.reader.passes, trainer.buffer.n_episodes) == (1, n_chosen)
    assert trainer.buffer.n_steps == 2 * n_chosen


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algo", ["qmix", "dqn"])
def test_a_replay_of_just_the_dataset_reads_it_once(small, offline, balanced, tmp_path, algo):
    """Defect: an episode buffer was read into again and again."""
    overrides = [*without(offline, "buffer.capacity"), "dataset.held_out=0.8"]
    if algo == "dqn":
        overrides = without(overrides, "env=", "dataset.", "algo", "test.n_envs")
        overrides += ["env=cartpole", "algo=dqn", f"dataset.read={balanced}"]
    roomy = rltrain.make_trainer([*overrides, "buffer.capacity=1000"], tmp_path / "roomy")
    roomy.run(10)
    buffer = roomy.buffer
    size = buffer.n_episodes if algo == "qmix" else buffer.n_steps
    for capacity, passes in ((size, 1), (size - 1, 2)):
        words = [*overrides, f"buffer.capacity={capacity}"]
        trainer = rltrain.make_trainer(words, tmp_path / str(capacity))
        trainer.run(max(30, 2 * size if capacity < size else 0))
        assert min(trainer.reader.passes, 2) == passes, capacity


@pytest.mark.parametrize("method", ["add", "finish"])
def test_a_filling_that_broke_off_is_completed(single, balanced, tmp_path, monkeypatch, method):
    """Defect: training went on with the part of the dataset that had been read."""
    monkeypatch.setattr(offline_trainer, "CHUNK", 50)
    words = [*without(single, "env=", "buffer", "algo.learning_starts"), "env=cartpole"]
    words += [f"dataset.read={balanced}", "dataset.held_out=0", "buffer=replay"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path)
    broken = patch.object(ReplayBuffer, method, side_effect=KeyboardInterrupt)
    with broken, pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.run(30)
    steps = (trainer.reader.dataset.length + 1).sum()
    assert (trainer.buffer.store.end, trainer.buffer.starts.stop) == (steps, steps)


@pytest.mark.slow
def test_a_smaller_replay_is_fed_as_the_clock_goes(offline, tmp_path):
    overrides = [*without(offline, "buffer."), "buffer.capacity=50", "algo.updates_per_episode=0.1"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path / "run")
    trainer.run(8)
    shown, clock = trainer.buffer._next, trainer.clock
    trainer.run(1100)
    read = 2 * (trainer.buffer._next - shown)  # two steps each
    assert read == pytest.approx(trainer.clock.env_steps - clock.env_steps, abs=2)
    assert trainer.reader.passes > 2


@pytest.mark.slow
def test_operators_between_reading_and_storing_are_asked(offline, tmp_path):
    trainer = rltrain.make_trainer(offline, run_dir=tmp_path / "run")
    trainer.callbacks = Callbacks([Penalty(), *trainer.callbacks.callbacks])
    trainer.run(100)
    assert {**trainer.latest, **trainer.metrics.take()}["learn/target_mean"] < -50


@pytest.mark.parametrize("capacity", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_resumed_offline_run_equals_the_uninterrupted_one(offline, tmp_path, capacity):
    overrides = [*without(offline, "buffer."), f"buffer.capacity={capacity}", "algo/network=gru"]
    overrides.remove("algo/network=mlp")
    whole = trained(overrides, tmp_path / "whole", 150)
    first = trained(overrides, tmp_path / "part", 80)
    first.save()
    second = rltrain.make_trainer(overrides, run_dir=tmp_path / "part")
    second.restore(tmp_path / "part")
    second.started = True
    second.run(150)
    assert second.clock == whole.clock
    assert torch.equal(weights(second), weights(whole))


@pytest.mark.slow
def test_without_a_saved_replay_the_dataset_is_read_again(offline, tmp_path):
    first = rltrain.make_trainer(offline, run_dir=tmp_path / "run")
    first.run(100)
    folder = first.save(with_replay=False)
    second = rltrain.make_trainer(offline, run_dir=tmp_path / "run")
    second.restore(folder)
    second.run(200)
    assert second.buffer.n_episodes == first.buffer.n_episodes
    assert second.clock.env_steps >= 200


@pytest.mark.slow
def test_qmix_solves_the_two_step_game_from_random_play(offline, tmp_path):
    overrides = [*without(offline, "algo.batch", "log."), "log.interval=1000000"]
    overrides += ["algo=qmix", "algo.target_update.episodes=100", "algo.mixer.embed_dim=8"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    trainer.run(3000)
    assert trainer.test(episodes=4)["test/return_mean"] == 8


MORE = ["simple_q", "c51", "iqn", "munchausen_dqn"]


@pytest.mark.parametrize(
    "algo", ["rainbow", "drqn", *(pytest.param(algo, marks=pytest.mark.slow) for algo in MORE)]
)
def test_methods_with_a_replay_learn_from_a_dataset(single, balanced, tmp_path, algo):
    overrides = without(single, "env=", "algo.exploration.", "buffer.", "algo.batch_size")
    overrides += ["env=cartpole", f"algo={algo}", "algo.batch_size=4", "test.n_envs=1"]
    overrides += [f"dataset.read={balanced}", "dataset.held_out=0.2", "algo.learning_starts=10"]
    trainer = rltrain.make_trainer([*overrides, "test.interval=1000000"], run_dir=tmp_path)
    trainer.run(40)
    assert trainer.clock.updates >= 10
    assert {**trainer.latest, **trainer.metrics.take()}["learn/skipped_updates"] == 0
    assert np.isfinite(trainer.test(episodes=1)["offline/is_return"])


class Countdown(Plain):
    """Episodes of 1, 4, 2 and 6 steps, which show the number of the episode and of the step."""

    observation_space = gymnasium.spaces.Box(0, 99, (2,), np.float32)
    episode = -1

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.length = (1, 4, 2, 6)[self.episode % 4]
        return super().reset(seed=seed)

    def seen(self):
        return np.array([self.episode, self.t], np.float32)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Those four episodes."""
    folder = tmp_path_factory.mktemp("countdown")
    overrides = [*without(SMALL, "buffer.", "env=", "hardware.n_envs", "algo.exploration.")]
    overrides += ["env=gymnasium", "algo=dqn", "hardware.n_envs=1", "algo.steps_per_collect=1"]
    overrides += ["test.n_envs=1", "dataset.write=" + str(folder / "d")]
    overrides += ["algo.learning_starts=900", "buffer.capacity=1000", "save.interval=1000000"]
    trainer = rltrain.make_trainer(overrides, folder / "r", env=Countdown)
    trainer.run(14)
    trainer.close()
    assert trainer.clock.env_steps == 14
    return folder / "d"


BATCHES = [
    ["algo=dqn"],
    *(["algo=dqn", f"algo.loss.n_step={n}"] for n in (3, 5, 10)),
    ["algo=rainbow", "algo.loss.n_step=5"],
    ["algo=dqn", "buffer.storage=disk", "algo.loss.n_step=4"],
    ["algo=drqn"],
    ["algo=r2d2", "buffer.first_hidden=zero"],
    ["algo=drqn", "buffer=episode"],
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("overrides", BATCHES, ids="-".join)
def test_every_transition_of_a_dataset_is_learned(small, counted, tmp_path, overrides):
    """Defect: the last ones of what filled the replay waited for steps that never followed."""
    kept = without(small, "env=", "buffer.", "algo.", "test.n_envs", "test.interval")
    kept += ["env=gymnasium", "test.n_envs=1", "test.interval=1000000", "algo.batch_size=4"]
    kept += ["algo.learning_starts=0", f"dataset.read={counted}", "dataset.held_out=0"]
    kept += [] if "buffer=episode" in overrides else ["buffer.capacity=1000"]
    with closing(rltrain.make_trainer([*kept, *overrides], tmp_path, env=Countdown)) as trainer:
        trainer.run(1)
        learned = set()
        for _ in range(100):
            batch = trainer.buffer.sample(4, trainer.clock)
            learned |= {*map(tuple, batch.obs[:-1][batch.mask][:, 0].int().tolist())}
    assert learned == {(e, t) for e, length in enumerate((1, 4, 2, 6, 1)) for t in range(length)}


REFUSED = [
    (["env=matrix"], r"recorded with 2 agents, 2 actions.* has 2 agents, 3 actions"),
    (["algo.batch_size=500"], r"episodes to learn from .* batch needs 500"),
    (["dataset.held_out=1"], r"0 episodes to learn from"),
    (["dataset.write=other"], r"dataset\.read and dataset\.write"),
    (["algo=pqn", "algo/mixer=independent"], r"learns only from what it has just played"),
    (
        ["algo=drqn", "buffer.first_hidden=stored", "algo/network=gru"],
        r"set buffer\.first_hidden=zero",
    ),
]


@pytest.mark.parametrize(("overrides", "said"), REFUSED, ids=lambda x: x[0] if x[0] else "")
def test_what_a_dataset_cannot_feed_is_refused(offline, tmp_path, overrides, said):
    given = [w.partition("=")[0] + "=" for w in overrides]
    kept = without(offline, "algo.updates_per_episode", *given)
    if any(w.startswith("algo=pqn") for w in overrides):
        kept = without(kept, "buffer.")
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer([*kept, *overrides], run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def changed_byte(folder):
    path = folder / shard_name(2)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


FAULTS = {
    "a changed byte": (changed_byte, "d", r"shard-00002.* is damaged: its checksum"),
    "a cut shard": (lambda d: os.truncate(d / shard_name(2), 9), "d", r"shard-00002.* is damaged"),
    "a missing shard": (lambda d: (d / shard_name(2)).unlink(), "d", r"shard-00002.* is missing"),
    "no shards": (
        lambda d: change_index(d, lambda index: index.update(shards=[])),
        "d",
        r"d/dataset\.json is damaged: it lists no shards",
    ),
    "a cut index": (lambda d: os.truncate(d / INDEX, 99), "d", r"cannot be read .*line 5 column"),
    "an empty index": (lambda d: os.truncate(d / INDEX, 0), "d", r"cannot be read .*line 1 column"),
    "no index": (lambda d: (d / INDEX).unlink(), "d", r"no dataset at /.*/d\. .* one folder with"),
    "a list": (lambda d: None, "[d,d]", r"no dataset at /.*/\[d,d\]\. .* one folder with"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_dataset_is_refused_before_a_folder_is_made(offline, recorded, own_folder, fault):
    """Defect: a changed byte was found by the first test of a run that had begun."""
    damage, typed, says = FAULTS[fault]
    shutil.copytree(recorded, "d")
    damage(own_folder / "d")
    with pytest.raises(RltrainError, match=says) as found:
        entry.run([*without(offline, "dataset.read"), f"dataset.read={typed}"])
    assert found.value.exit_code in (2, 3)
    assert not (own_folder / "outputs").exists()
