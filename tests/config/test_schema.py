from itertools import pairwise

import pytest

import rltrain
from rltrain.config.schema import AlgoSettings


@pytest.mark.parametrize(
    ("typed", "per_env_step", "n_envs", "expected"),
    [
        (3, 0.25, 8, 3),
        ("auto", 0.25, 8, 1),
        ("auto", 0.25, 1, 4),
        ("auto", 0.1, 1, 10),  # 1 / 0.1 is more than 10 in binary fractions
        ("auto", 0.1, 32, 1),
        ("auto", 0.1, 3, 4),
        ("auto", 1e-6, 1, 64),
        ("auto", 2, 1, 1),
        ("auto", None, 8, 1),
    ],
)
def test_time_steps_of_one_iteration(typed, per_env_step, n_envs, expected):
    others = ("updates_per_episode", "max_grad_norm", "lr_factors", "reward_norm")
    given = {"steps_per_collect": typed, "updates_per_env_step": per_env_step}
    algo = AlgoSettings(batch_size=1, learning_starts=0, **given, **dict.fromkeys(others))
    assert algo.time_steps(n_envs) == expected


def test_one_iteration_makes_one_gradient_step(tmp_path):
    words = ["algo=dqn", "env=cartpole", "tuned=none", "hardware.n_envs=1", "logger=[]"]
    words += ["algo.updates_per_env_step=0.1", "algo.learning_starts=50", "algo.batch_size=8"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path / "run")
    counts = []
    trainer.callbacks.on_iteration = lambda t: counts.append((t.clock.env_steps, t.clock.updates))
    trainer.start()
    trainer.run(400)
    trainer.close()
    per_iteration = [b[1] - a[1] for a, b in pairwise(counts) if a[0] > 60]
    assert set(per_iteration) <= {0, 1}  # none where an episode's final step is among them
    env_steps, updates = counts[-1]
    assert abs(updates - (env_steps - 50) / 10) <= 1
