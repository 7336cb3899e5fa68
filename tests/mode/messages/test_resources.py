"""The resource plan: counted before the run, shown, kept, and refused where it cannot be."""

import json

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.errors import UsageError
from rltrain.mode.messages import resources
from rltrain.mode.messages.resources import replay_bytes, resource_plan
from rltrain.types import Plan

CARTPOLE = [
    *("algo=dqn", "env=cartpole", "tuned=none", "hardware.n_envs=3", "test.n_envs=5"),
    "test.episodes=4",
]
CARTPOLE += ["buffer.capacity=1000", "hardware.threads=1", "logger.wandb.mode=disabled"]
CARTPOLE += ["algo.network.hidden_sizes=[8]", "algo.network.head_sizes=[]"]
STEP = 4 * 4 + 2 + 1 + 1 + 4 + 1  # observation, masks, last, action, reward, terminated


@pytest.fixture
def trainer(tmp_path):
    return rltrain.make_trainer([*CARTPOLE, "algo.learning_starts=100"], run_dir=tmp_path)


def test_everything_is_counted(trainer):
    plan = resource_plan(settings_from(CARTPOLE), trainer)
    weights = (4 + 1) * 8 + (8 + 1) * 2
    assert (plan["device"], plan["processes"], plan["threads"]) == ("cpu", 1, 1)
    assert plan["n_envs"] == {"training": 3, "tests": 4}
    assert plan["parameters"] == {"agents": weights, "mixer": 0}
    assert plan["replay"]["bytes_per_step"] == STEP
    assert (plan["replay"]["unit"], plan["replay"]["capacity"]) == ("steps", 1000)
    assert plan["replay"]["bytes"] == trainer.buffer.store.n_blocks * 32 * STEP
    # weights, targets, gradients, two moments; and Adam's own counter
    assert weights * 4 * 5 <= plan["network_bytes"] <= weights * 4 * 5 + 8


def test_games_of_their_own_are_processes(trainer):
    trainer.rollout.about = {"backend": "sc2"}
    assert resource_plan(settings_from(CARTPOLE), trainer)["processes"] == 1 + 3 + 4


def test_run_json_keeps_the_plan_which_is_made_once(small, monkeypatch):
    counted = []
    monkeypatch.setattr(resources, "network_bytes", lambda trainer: counted.append(1) or 5)
    result = rltrain.train([*small, "total_env_steps=40"])
    plan = json.loads((result.run_dir / "run.json").read_text())["plan"]
    assert (plan["n_envs"], plan["replay"]["unit"]) == ({"training": 3, "tests": 2}, "episodes")
    assert len(counted) == 1


@pytest.mark.parametrize(("worst", "cap", "full"), [(50, 80, 50), (90, 80, 80), (None, 80, 80)])
def test_a_full_replay_is_what_it_can_need_and_may_use(worst, cap, full):
    plan = Plan(bytes_per_step=10, worst_case_bytes=worst, cap_bytes=cap, capacity=100)
    assert replay_bytes(plan) == full


def test_a_command_for_more_episodes_than_memory_can_hold_is_refused(small, tmp_path):
    small = [w for w in small if not w.startswith("buffer.")]
    overrides = ["buffer.max_bytes=1e15", "buffer.capacity=2e10"]
    with pytest.raises(UsageError, match=r"GB.*memory are free here: set buffer\.capacity="):
        rltrain.make_trainer([*small, *overrides], run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
