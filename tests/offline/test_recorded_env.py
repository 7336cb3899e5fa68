"""Recording while something plays: the same experience, the same training, exact resumption."""

import json
from contextlib import closing

import numpy as np
import pytest
import torch

import rltrain
from rltrain.errors import EnvError, UsageError
from rltrain.offline.dataset import open_dataset
from rltrain.offline.dataset_recorder import RecordedEnv
from rltrain.offline.shards import read_index
from tests.helpers import full, trained, unchanged, weights


def whole(folder, spec):
    """Every field of all pieces, one after the other."""
    data = open_dataset(folder, spec)
    pieces = [data.piece(i) for i in range(len(data.length))]
    return {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]}


@pytest.fixture
def roomy(small):
    """The small run with a replay that keeps everything."""
    return [*(w for w in small if not w.startswith("buffer.")), "buffer.capacity=1000"]


def test_what_is_written_is_what_the_replay_got(roomy, tmp_path):
    trainer = trained([*roomy, f"dataset.write={tmp_path / 'd'}"], tmp_path / "run", 100)
    state = trainer.buffer.state_dict()
    trainer.close()
    written = whole(tmp_path / "d", trainer.rollout.env.spec)
    n, ended = 3 * trainer.clock.episodes, trainer.rollout.env.last.sum()
    assert len(written["last"]) == n + 3 * ended
    for name in ("obs", "avail_actions", "last", "action", "reward", "terminated", "state"):
        stored = np.asarray(state[f"steps.{name}"])[:n]
        np.testing.assert_array_equal(
            written[name][:n], stored.reshape(n, *written[name].shape[1:])
        )


@pytest.mark.parametrize(("total", "warns"), [(3, True), (6, False), (9, False)])
def test_a_run_in_which_no_episode_ends_says_that_there_is_no_dataset(
    small, tmp_path, caplog, total, warns
):
    """Defect: it said nothing, and the folder was not there; later it said so of a run whose
    episodes had ended with its last env step.
    """
    overrides = [*small, f"total_env_steps={total}", f"dataset.write={tmp_path / 'd'}"]
    overrides += ["algo.steps_per_collect=1"]
    with closing(rltrain.make_trainer(overrides, tmp_path / "run")) as trainer:
        trainer.train()
    assert (tmp_path / "d").exists() is not warns
    assert ("no episode has ended in 3 env steps" in caplog.text) is warns


@pytest.mark.slow
def test_recording_does_not_change_training(small, tmp_path):
    plain = trained(small, tmp_path / "a", 120)
    recorded = trained([*small, f"dataset.write={tmp_path / 'd'}"], tmp_path / "b", 120)
    assert torch.equal(weights(plain), weights(recorded))


def test_nothing_stands_between_when_nothing_is_written(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    assert not isinstance(trainer.rollout.env, RecordedEnv)


def test_probabilities_are_those_of_the_exploration(small, tmp_path):
    overrides = [*small, "algo.exploration.start=1", "algo.exploration.end=1"]
    trainer = trained([*overrides, f"dataset.write={tmp_path / 'd'}"], tmp_path / "run", 60)
    trainer.close()
    written = whole(tmp_path / "d", trainer.rollout.env.spec)
    assert set(written["probability"][~written["last"]].ravel()) == {0.5}


def test_a_resumed_recording_equals_the_uninterrupted_one(small, tmp_path):
    """Defect: a trainer that was only restored removed what was recorded after its checkpoint."""
    size = "dataset.shard_bytes=2000"
    one = trained([*small, size, f"dataset.write={tmp_path / 'one'}"], tmp_path / "a", 150)
    one.close()
    overrides = [*small, size, f"dataset.write={tmp_path / 'two'}"]
    first = trained(overrides, tmp_path / "b", 60)
    first.save()
    first.run(100)
    first.close()
    with unchanged(tmp_path / "two"), closing(rltrain.make_trainer(overrides, tmp_path / "b")) as t:
        t.restore(tmp_path / "b")
    second = rltrain.make_trainer(overrides, run_dir=tmp_path / "b")
    second.restore(tmp_path / "b")
    second.start()
    second.run(150)
    second.close()
    shards = read_index(tmp_path / "one")["shards"]
    assert len(shards) > 2
    assert read_index(tmp_path / "two")["shards"] == shards
    assert len([*(tmp_path / "two").glob("shard-*")]) == len(shards)


@pytest.mark.slow
def test_without_a_saved_replay_no_episode_is_glued_together(small, tmp_path):
    overrides = [*small, f"dataset.write={tmp_path / 'd'}"]
    first = trained(overrides, tmp_path / "run", 101)
    folder = first.save(with_replay=False)
    first.close()
    second = rltrain.make_trainer(overrides, run_dir=tmp_path / "run")
    second.restore(folder)
    second.start()
    second.run(200)
    second.close()
    assert set(open_dataset(tmp_path / "d", second.rollout.env.spec).length.tolist()) == {2}


@pytest.mark.parametrize(
    "overrides", [["algo.network.noisy_sigma=0.5"], ["algo/exploration=parameter_noise"]]
)
def test_noise_that_nobody_can_weigh_leaves_probabilities_unknown(single, tmp_path, overrides):
    single = [w for w in single if not w.startswith(("env=", "algo.exploration."))]
    single += ["env=cartpole", "algo=dqn", "algo.learning_starts=10"]
    single += [f"dataset.write={tmp_path / 'd'}"]
    trainer = trained([*single, *overrides], tmp_path / "run", 100)
    trainer.close()
    assert not open_dataset(tmp_path / "d", trainer.rollout.env.spec).knows_probabilities


def test_an_evaluation_writes_exactly_its_episodes(small, command, own_folder):
    assert command(*small, "total_env_steps=50") == 0
    (run_dir,) = own_folder.glob("outputs/*-*/*")
    overrides = ["dataset.write=seen", "test.epsilon=0.5", "test.episodes=7", "test.n_envs=3"]
    assert command("mode=evaluate", f"checkpoint={run_dir}", *overrides) == 0
    index = read_index(own_folder / "seen")
    assert (index["episodes"], index["transitions"]) == (7, 14)
    data = open_dataset(own_folder / "seen", rltrain.load_policy(run_dir).spec)
    found = {round(float(p), 2) for i in range(7) for p in data.piece(i)["probability"][0]}
    assert found <= {0.25, 0.75}


def test_a_scripted_policy_is_recorded_with_its_probabilities(command, own_folder):
    overrides = ["algo=scripted", "algo.policy=random", "env=two_step", "test.n_envs=2"]
    assert command("mode=evaluate", *overrides, "dataset.write=random", "test.episodes=5") == 0
    index = read_index(own_folder / "random")
    assert index["episodes"] == 5
    assert index["shards"][0]["probabilities"]


@pytest.mark.parametrize(
    ("max_bytes", "kept"),
    [("null", "recorded"), (9000, "recorded in part"), (100, "not recorded")],
)
def test_an_evaluation_says_how_much_is_recorded(command, own_folder, capsys, max_bytes, kept):
    """Defect: episodes without room were said to be recorded."""
    overrides = ["algo=scripted", "algo.policy=random", "env=two_step", "test.episodes=100"]
    overrides += ["dataset.write=d", "dataset.shard_bytes=500", f"dataset.max_bytes={max_bytes}"]
    assert command("mode=evaluate", *overrides) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"100 episodes, {kept} into {own_folder / 'd'}, seed" in printed
    (file,) = own_folder.glob("outputs/*/*/evaluation.json")
    assert json.loads(file.read_text())["environment"] == {f"{kept} into": str(own_folder / "d")}
    n = read_index(own_folder / "d")["episodes"] if (own_folder / "d").exists() else 0
    assert {"recorded": n == 100, "not recorded": n == 0}.get(kept, 0 < n < 100)


@pytest.mark.slow
def test_an_evaluation_of_a_recorded_run_records_nothing(small, command, own_folder):
    assert command(*small, "total_env_steps=50", "dataset.write=d") == 0
    before = read_index(own_folder / "d")
    (run_dir,) = own_folder.glob("outputs/*-*/*")
    assert command("mode=evaluate", f"checkpoint={run_dir}") == 0
    assert read_index(own_folder / "d") == before


def test_a_folder_in_use_is_refused_before_anything_is_written(small, command, own_folder):
    (own_folder / "d").mkdir()
    (own_folder / "d" / "x").touch()
    with pytest.raises(UsageError, match=r"dataset\.write=.*d already exists"):
        command(*small, "dataset.write=d")
    assert [p.name for p in own_folder.iterdir()] == ["d"]


def test_the_jobs_of_a_sweep_cannot_share_a_folder(small, command, own_folder):
    with pytest.raises(UsageError, match=r"2 jobs cannot write into one folder.*data/\$\{seed\}"):
        command("-m", *small, "seed=1,2", "dataset.write=d")
    assert not list(own_folder.iterdir())


@pytest.mark.parametrize("lost", ["sync", "taken"])  # a full disk; the folder is another run's
def test_a_run_that_could_not_write_its_dataset_continues_as_if_it_had(
    small, tmp_path, monkeypatch, lost
):
    """Defect: the open episodes were dropped, so that weights and dataset differed."""
    overrides = [*small, "total_env_steps=150", "dataset.shard_bytes=2000", "test.interval=40"]
    overrides += ["save.interval=1000"]

    def make(name):
        return rltrain.make_trainer(
            [*overrides, f"dataset.write={tmp_path / name}"], run_dir=tmp_path / f"run-{name}"
        )

    with closing(make("one")) as one:
        one.train()
    with closing(make("two")) as two, monkeypatch.context() as patch:
        two.start()
        if lost == "sync":
            patch.setattr("rltrain.offline.shards.sync", full)
        else:
            (tmp_path / "two").mkdir()
            (tmp_path / "two/notes.txt").touch()
        with pytest.raises(EnvError, match=r"No space left|Another command has written"):
            two.train()
        assert 0 < two.clock.env_steps < 150
    if lost == "taken":
        (tmp_path / "two").rename(tmp_path / "other")
    with closing(make("two")) as two:
        two.restore(tmp_path / "run-two")
        two.train()
    assert torch.equal(weights(one), weights(two))
    assert read_index(tmp_path / "one")["shards"] == read_index(tmp_path / "two")["shards"]
    rows = [
        [
            {k: v for k, v in json.loads(line).items() if not k.startswith(("time/", "seconds"))}
            for line in (tmp_path / f"run-{name}/metrics.jsonl").read_text().splitlines()
        ]
        for name in ("one", "two")
    ]
    assert rows[0] == rows[1]
