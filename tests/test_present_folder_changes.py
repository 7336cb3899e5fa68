"""Relative paths lead to where they led when they were given, wherever the process goes later."""

import os

import pytest

import rltrain
from tests.helpers import nothing_written

BRIEF = [
    "total_env_steps=60", "test.interval=1000", "test.episodes=1", "test.n_envs=1",
    "log.interval=20", "save.interval=40", "hardware.n_envs=1", "hardware.threads=1",
    "algo.batch_size=4", "logger=[]",
]  # fmt: skip
GAME = ["algo=dqn", "env=cartpole", "tuned=none", "algo.learning_starts=8"]
PATHS = {
    "run_dir": [],
    "dataset.write": ["dataset.write=data"],
    "buffer.folder": ["buffer.storage=disk", "buffer.folder=steps"],
    "env.prices": [
        "env=trading", "env.prices=prices.csv", "env.episode_length=10", "env.window=3",
    ],
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", PATHS)
def test_a_relative_path_is_that_of_the_folder_in_which_it_was_typed(own_folder, monkeypatch, key):
    """Defect: rows and checkpoints went nowhere, or into another folder."""
    prices = "\n".join(str(100 + i % 7) for i in range(200))
    (own_folder / "prices.csv").write_text(f"close\n{prices}")
    game = GAME if key != "env.prices" else [w for w in GAME if not w.startswith("env=")]
    trainer = rltrain.make_trainer([*game, *BRIEF, *PATHS[key]], run_dir="run")
    (own_folder / "elsewhere").mkdir()
    monkeypatch.chdir(own_folder / "elsewhere")
    trainer.train()
    trainer.close()
    assert nothing_written(own_folder / "elsewhere")
    assert {"metrics.jsonl", "run.json", "config.json", "checkpoints"} <= set(
        os.listdir(own_folder / "run")
    )
