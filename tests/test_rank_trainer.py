"""What a rank decides from the sums over all ranks."""

import pytest
import torch

import rltrain
from rltrain.api import settings_from
from rltrain.callback import Callbacks
from rltrain.errors import EnvError, UsageError
from rltrain.mode import train
from rltrain.types import Clock

VARIABLES = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": "localhost"}
SMALL = [
    *("algo=dqn", "env=cartpole", "tuned=none", "hardware=ddp", "hardware.threads=1"),
    *("hardware.n_envs=4", "algo.learning_starts=0", "algo.batch_size=4", "buffer.capacity=100"),
    *("algo.network.hidden_sizes=[8]", "algo.updates_per_env_step=0.25", "test.episodes=2"),
]


@pytest.fixture
def rank(tmp_path, monkeypatch):
    for name, value in {**VARIABLES, "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    trainer = rltrain.make_trainer(SMALL, run_dir=tmp_path / "run")
    yield trainer
    trainer.close()


@pytest.mark.parametrize(
    ("other", "due", "stopping"),
    [
        ([6, 1, 0, 0, 0], 4, None),  # a quarter of 10 + 6 env steps
        ([6, 1, 1, 0, 0], 0, None),
        ([6, 1, 0, 1, 0], 4, "another rank ended"),
        ([6, 1, 0, 1, 1], 4, "another rank ended"),
    ],
    ids=["ready", "not ready", "ending", "interrupted"],
)
def test_all_ranks_learn_once_all_are_ready_and_end_together(rank, other, due, stopping):
    """``other``: env steps, episodes, unready, ending, interrupted of the other rank.

    Defect: a run that a signal to another rank had ended was recorded as finished.
    """
    steps = rank.rollout.collect(5, rank.clock)
    rank.buffer.add(steps)
    assert rank.can_learn
    rank.ranks.sum = lambda counts: counts.add_(torch.tensor(other))
    assert rank.counted(steps) == due
    assert (rank.clock.env_steps, rank.clock.episodes) == (16, 1 + len(steps.episodes))
    assert rank.stopping == stopping
    assert rank.interrupted == bool(other[-1])


def test_reasons_to_stop_are_those_of_a_single_process(rank):
    """Defect: any object was a reason, and a later one replaced that of a signal."""
    with pytest.raises(UsageError, match="expected the reason, such as 'solved'"):
        rank.stop(3)
    rank.stop("SIGTERM", interrupted=True)
    rank.stop("solved")
    rank.ranks.sum = lambda counts: None
    rank.counted(rank.rollout.collect(5, rank.clock))
    assert (rank.stopping, rank.interrupted) == ("SIGTERM", True)


def become(rank, number, chosen=None):
    """Let a trainer be that of another rank, to which rank 0 says what it has ``chosen``."""
    ranks = rank.ranks
    ranks.rank, ranks.start = number, lambda: None
    ranks.gather = lambda own: [chosen if own is None else own, own]
    ranks.copy_first = lambda tensor: None


def test_ranks_draw_noise_of_their_own_after_a_resume(rank, tmp_path):
    """Defect: all continued the stream of rank 0, whose checkpoint they read."""
    rank.save()
    drawn, chosen = [], None
    for number in (0, 1, 1):
        become(rank, number, chosen)
        chosen = rank.restore(tmp_path / "run")
        with rank.random:
            drawn.append(torch.randn(3).tolist())
    assert drawn[0] != drawn[1] == drawn[2]


def files(folder):
    """The texts of its files, and its folders, by path."""
    return {p: p.is_file() and p.read_bytes() for p in folder.rglob("*")}


@pytest.mark.parametrize("path", ["run", "run/checkpoints/0"], ids=["run", "earlier checkpoint"])
@pytest.mark.parametrize("number", [0, 1])
def test_only_rank_0_changes_checkpoints_when_all_restore_its_choice(rank, tmp_path, path, number):
    """Defect: each chose for itself, and deleted what another one was writing."""
    checkpoints, rank.callbacks = tmp_path / "run" / "checkpoints", Callbacks([])
    for _ in range(2):
        rank.save()
        rank.clock = rank.clock.after(rank.rollout.collect(5, rank.clock))
    (checkpoints / ".latest.7").write_text("0")  # that of another rank, or left by a killed one
    before, rank.clock = files(checkpoints), Clock()
    become(rank, 0)
    chosen = rank.restore(tmp_path / path)
    become(rank, number, chosen)
    rank.restore(tmp_path / ("run" if number else path))
    rank.start()
    rank.tidy_checkpoints()
    assert rank.clock.env_steps == chosen.step
    assert (files(checkpoints) == before) == (number == 1)


@pytest.mark.parametrize("number", [0, 1])
def test_only_rank_0_removes_what_a_run_without_a_checkpoint_has_written(rank, tmp_path, number):
    written = tmp_path / "run" / "metrics.jsonl"
    written.write_text("{}\n")
    rank.save("weights")
    before = files(tmp_path / "run")
    become(rank, number, chosen=False)
    train.restore(rank, settings_from(SMALL))
    assert (files(tmp_path / "run") == before) == (number == 1)


@pytest.mark.parametrize("name", ["agents", "obs_space", "n_actions"])
def test_ranks_whose_environments_differ_do_not_begin(rank, name):
    others = {"n_actions": 7, "agents": [["b", {}, {}]], "obs_space": {"discrete": 4}}
    other = {**rank.about["spec"], name: others[name]}
    rank.about["spec"]["agents"] = [["a", {}, {}]]
    if name != "agents":
        other["agents"] = [["a", {}, {}]]
    rank.ranks.start = lambda: None
    rank.ranks.gather = lambda own: [own, own, other]
    with pytest.raises(EnvError, match=r"In the first one: .*, in another one .*PYTHONHASHSEED=0"):
        rank.start()
