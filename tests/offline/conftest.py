"""A recorded dataset, and a run that learns from it."""

import pytest

import rltrain
from tests.conftest import SMALL

RANDOM = ["algo.exploration.start=1", "algo.exploration.end=1"]


def without(overrides, *names):
    return [w for w in overrides if not w.startswith(names)]


def record(overrides, folder, env_steps):
    """So much random play without any learning, written to ``folder / "d"``."""
    overrides = [*overrides, *RANDOM, "algo.learning_starts=1000000", "buffer.capacity=1000000"]
    overrides += ["test.interval=1000000", "save.interval=1000000"]
    run = rltrain.make_trainer([*overrides, f"dataset.write={folder / 'd'}"], run_dir=folder / "r")
    run.run(env_steps)
    run.close()
    return folder / "d"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Some 500 random episodes of the two-step game, in a few shards."""
    overrides = [*without(SMALL, "buffer."), "dataset.shard_bytes=30000"]
    return record(overrides, tmp_path_factory.mktemp("two_step"), 1000)


@pytest.fixture
def offline(small, recorded):
    """The small run, from that dataset, with a replay that holds it whole."""
    overrides = [*without(small, "buffer.", "test.interval"), "test.interval=1000000"]
    overrides += ["algo/network=mlp", "save.interval=1000000"]
    return [*overrides, "buffer.capacity=1000", f"dataset.read={recorded}"]
