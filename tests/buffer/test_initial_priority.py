"""Initial priorities: those that the loss would give, from the values of acting."""

import numpy as np
import pytest

import rltrain
from rltrain.buffer.priorities import Priorities, Sampling
from rltrain.errors import UsageError

FEW = [
    *("tuned=none", "hardware.threads=1", "hardware.n_envs=3", "test.episodes=2"),
    *("algo.learning_starts=100000", "buffer.capacity=100000", "buffer.alpha=0.7"),
    *("buffer.initial_priority=td_error", "logger.wandb.mode=disabled"),
]
DQN = ["algo=dqn", "buffer=prioritized", "env=cartpole", "env.max_episode_steps=15"]
TEAM = ["algo=dqn", "buffer=prioritized", "env=two_step"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        DQN,
        [*DQN, "algo.loss.n_step=3", "algo.loss.rescale=1e-3", "buffer.sequence_length=4"],
        ["algo=r2d2", "env=cartpole", "env.max_episode_steps=30"],
        [*TEAM, "algo.loss.n_step=2"],
        [*TEAM, "buffer.agents=independent", "algo.loss.double=false"],
    ],
    ids=["dqn", "sequences", "r2d2", "team", "independent"],
)
def test_new_windows_have_the_priority_that_the_loss_gives_them(tmp_path, words):
    trainer = rltrain.make_trainer([*words, *FEW], run_dir=tmp_path / "run")
    trainer.run(300)
    assert trainer.clock.updates == 0
    buffer, learner = trainer.buffer, trainer.learner
    batch = buffer.sample(256, trainer.clock)
    found = learner.loss(learner.online, learner.target, batch, trainer.clock).priority
    stored = buffer.starts.priorities.tree[batch.index.numpy()]
    want = (found.double().numpy() + buffer.starts.priorities.floor) ** 0.7
    np.testing.assert_allclose(stored, want, rtol=1e-3, atol=1e-5)
    assert len(np.unique(stored)) > 5
    trainer.close()


def test_a_priority_that_is_not_finite_is_the_largest_so_far():
    priorities = Priorities(8, Sampling(alpha=1.0, priority_floor=0.5), 1)
    priorities.update(np.array([0]), np.array([1.0]))  # not drawable, so not set
    priorities.largest = 9.0
    drawable = np.array([True, True, False])
    priorities.add(np.array([1, 2, 3]), drawable, np.array([2.0, np.inf, 2.0]))
    assert priorities.tree[np.arange(4)].tolist() == [0, 2.5, 9, 0]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["algo=dqn"], r"drawn uniformly.*Type buffer=prioritized, or"),
        (["algo=c51", "buffer=prioritized"], r"CategoricalLoss \(algo\.loss\) has other prior"),
        (["algo=qrdqn", "buffer=prioritized"], r"QuantileLoss \(algo\.loss\) has other prior"),
        (
            ["algo=munchausen_dqn", "buffer=prioritized"],
            r"algo\.loss\.munchausen=0\.9.*Type buffer\.initial_priority=max",
        ),
        (
            ["algo=dqn", "buffer=prioritized", "buffer.sequence_length=4", "algo.loss.trace=0.5"],
            r"algo\.loss\.trace=0\.5.*Type buffer\.initial_priority=max",
        ),
        (
            ["algo=vdn", "buffer=prioritized", "env=two_step"],
            r"Sum joins them\. Type algo/mixer=independent, or to keep the\s+mixer "
            r"buffer\.initial_priority=max",
        ),
        (["algo=dqn", "buffer=prioritized", "algo.reward_norm=scale"], r"reward_norm=null, or"),
    ],
)
def test_what_has_no_errors_of_acting_is_refused(tmp_path, words, match):
    env = [] if any(word.startswith("env=") for word in words) else ["env=cartpole"]
    with pytest.raises(UsageError, match=match):
        rltrain.make_trainer([*words, *env, *FEW], run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dataset_has_no_values_of_acting(tmp_path):
    words = ["env=cartpole", "algo=dqn", "tuned=none", "hardware.threads=1", "test.episodes=2"]
    trainer = rltrain.make_trainer(
        [*words, f"dataset.write={tmp_path}/data", "total_env_steps=300"], run_dir=tmp_path / "a"
    )
    trainer.train()
    trainer.close()
    read = [f"dataset.read={tmp_path}/data", "buffer=prioritized"]
    with pytest.raises(UsageError, match=r"a dataset does not hold.*initial_priority=max"):
        rltrain.make_trainer([*words, *read, "buffer.initial_priority=td_error"], run_dir=tmp_path)
