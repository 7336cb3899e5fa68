"""What a rank decides from the sums over all ranks."""

import pytest
import torch

import rltrain
from rltrain.errors import EnvError

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


def test_ranks_draw_noise_of_their_own_after_a_resume(rank, tmp_path):
    """Defect: all continued the stream of rank 0, whose checkpoint they read."""
    rank.save()
    drawn = []
    for number in (0, 1, 1):
        rank.ranks.rank = number
        rank.restore(tmp_path / "run")
        with rank.random:
            drawn.append(torch.randn(3).tolist())
    assert drawn[0] != drawn[1] == drawn[2]


@pytest.mark.parametrize("name", ["agents", "obs_space", "n_actions"])
def test_ranks_whose_environments_differ_do_not_begin(rank, name):
    other = {
        **rank.about["spec"],
        name: 7
        if name == "n_actions"
        else [["b", {}, {}]]
        if name == "agents"
        else {"discrete": 4},
    }
    rank.about["spec"]["agents"] = [["a", {}, {}]]
    if name != "agents":
        other["agents"] = [["a", {}, {}]]
    rank.ranks.start = lambda: None
    rank.ranks.gather = lambda own: [own, own, other]
    with pytest.raises(EnvError, match=r"In the first one: .*, in another one .*PYTHONHASHSEED=0"):
        rank.start()
