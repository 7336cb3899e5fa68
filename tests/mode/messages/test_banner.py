"""The banner: what is said of a run before it begins, and what is left out; the resource plan:
counted before the run, shown, kept, and refused where it cannot be.
"""

import io
import re

import pytest
from rich.console import Console

import rltrain
from rltrain.api import settings_from
from rltrain.errors import UsageError
from rltrain.mode import run_folder
from rltrain.mode.messages.banner import JobName, banner, job_line, replay_text, resource_plan
from rltrain.mode.run_folder import git_state
from rltrain.types import Plan
from tests.helpers import over, record_of

CARTPOLE = [
    *("algo=dqn", "env=cartpole", "tuned=none", "hardware.n_envs=3", "test.n_envs=5"),
    *("test.episodes=4", "buffer.capacity=1000", "hardware.threads=1"),
    *("algo.network.hidden_sizes=[8]", "algo.network.head_sizes=[]", "logger.wandb.mode=disabled"),
]
STEP = 4 * 4 + 2 + 1 + 1 + 4 + 1  # observation, masks, last, action, reward, terminated


def said(overrides, tmp_path, origin=None):
    trainer, settings = rltrain.make_trainer(overrides, tmp_path / "run"), settings_from(overrides)
    screen = io.StringIO()
    text = banner(settings, trainer, resource_plan(settings, trainer), origin)
    Console(width=200, file=screen).print(text)
    trainer.close()
    return screen.getvalue()


def test_it_tells_length_tests_and_sizes_in_the_right_number(tmp_path):
    text = said([*CARTPOLE, "total_env_steps=20000", "test.interval=5000"], tmp_path)
    assert "dqn on cartpole, seed 0: 20,000 env steps, 4 test episodes every 5,000" in text
    assert "1 agent, 2 actions, observation 4; 3 environments, 4 for tests" in text
    assert "agents 58 parameters" in text
    assert f"1,000 steps of {STEP} bytes a step, up to" in text
    assert re.search(r"cpu, 1 torch thread\b", text)
    assert "loggers      metrics.jsonl, wandb off" in text


@pytest.mark.parametrize("nothing", ["mixer 0", "state 0", "free memory", "starts from", "preset"])
def test_it_leaves_out_what_is_of_no_interest(tmp_path, nothing):
    assert nothing not in said(CARTPOLE, tmp_path)


def test_it_names_preset_early_stop_and_origin(tmp_path):
    words = ["experiment=zoo/cartpole", "stop.metric=test/return_mean", "stop.value=475"]
    words += ["stop.hours=2", "hardware.threads=1"]
    text = said(words, tmp_path, origin="outputs/run/checkpoints/9 (env step 9)")
    assert "preset       zoo/cartpole" in text
    assert "until test/return_mean is 475, at most 2 hours" in text
    assert "starts from  outputs/run/checkpoints/9 (env step 9)" in text
    assert "loggers      metrics.jsonl, wandb offline" in text


def test_a_job_of_a_sweep_gets_one_line(tmp_path):
    trainer = rltrain.make_trainer(CARTPOLE, run_dir=tmp_path / "1_seed-0")
    line = job_line(settings_from(CARTPOLE), trainer, JobName("1_seed-0", 6))
    assert line.startswith("[1_seed-0] job 2 of 6: dqn on cartpole, seed 0: ")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("plan", "free", "words"),
    [
        ((9, "episodes", 7, 1_500_000, 1e8), 10**10, "9 episodes of {}, up to 1.5 MB"),
        ((9, "steps", 7, 6, 9), 10, "9 steps of {}, up to 6 bytes of 10 bytes of free"),
        ((9, "episodes", 7, 6, 6), 100, "9 episodes of {}, or as many as 6 bytes hold ({})"),
        ((0, "steps", 7, 0, 0), 10**10, "the last collected steps, 7 bytes each"),
        ((9, "steps", 7, 6, 9, "/a/b"), 1, "9 steps of {}, up to 6 bytes on disk, in /a/b"),
    ],
)
def test_replays_in_words(plan, free, words):
    words = words.format("7 bytes a step", "buffer.max_bytes")
    names = ("capacity", "unit", "bytes_per_step", "bytes", "max_bytes", "folder")
    facts = dict.fromkeys(names) | dict(zip(names, plan, strict=False))
    assert replay_text(facts, free).startswith(words)


def test_a_resume_says_where_it_continues(command, capsys):
    assert command(*CARTPOLE, "total_env_steps=60", "test.episodes=1", "hydra.run.dir=run") == 0
    capsys.readouterr()
    assert command("resume=run", "total_env_steps=90") == 0
    shown = capsys.readouterr()
    assert "cannot save their state" not in shown.out + shown.err
    assert re.search(r"continues at  6\d env steps", shown.out)
    assert "starts from" not in shown.out


@pytest.fixture
def planned(tmp_path):
    """A trainer, and the plan of its resources."""
    settings = settings_from(CARTPOLE)
    trainer = rltrain.make_trainer([*CARTPOLE, "algo.learning_starts=100"], run_dir=tmp_path)
    return trainer, lambda: resource_plan(settings, trainer)


def test_everything_is_counted(planned):
    trainer, plan = planned[0], planned[1]()
    weights = (4 + 1) * 8 + (8 + 1) * 2
    assert (plan["device"], plan["processes"], plan["threads"]) == ("cpu", 1, 1)
    assert plan["n_envs"] == {"training": 3, "tests": 4}
    assert plan["parameters"] == {"agents": weights, "mixer": 0}
    assert plan["replay"]["bytes_per_step"] == STEP
    assert (plan["replay"]["unit"], plan["replay"]["capacity"]) == ("steps", 1000)
    assert plan["replay"]["bytes"] == trainer.buffer.store.n_blocks * 32 * STEP
    # weights, targets, gradients, two moments; and Adam's own counter
    assert weights * 4 * 5 <= plan["network_bytes"] <= weights * 4 * 5 + 8


def test_games_of_their_own_are_processes(planned):
    trainer, plan = planned
    trainer.rollout.about = {"backend": "sc2"}
    assert plan()["processes"] == 1 + 3 + 4


def test_run_json_keeps_the_plan_which_is_made_once_and_the_working_copy(small, monkeypatch):
    made = []

    def counted(*given):
        made.append(resource_plan(*given))
        return made[-1]

    monkeypatch.setattr(run_folder, "resource_plan", counted)
    result = rltrain.train([*small, "total_env_steps=40"])
    record = record_of(result.run_dir)
    assert {name: record[name] for name in ("git_commit", "git_dirty")} == git_state()
    assert git_state()["git_dirty"] in (True, False, None)
    plan = record["plan"]
    assert (plan["n_envs"], plan["replay"]["unit"]) == ({"training": 3, "tests": 2}, "episodes")
    assert made == [plan]


@pytest.mark.parametrize(("worst", "cap", "full"), [(50, 80, 50), (90, 80, 80), (None, 80, 80)])
def test_a_full_replay_is_what_it_can_need_and_may_use(planned, monkeypatch, worst, cap, full):
    replay = Plan(bytes_per_step=10, worst_case_bytes=worst, cap_bytes=cap, capacity=100)
    monkeypatch.setattr(planned[0].buffer, "plan", lambda: replay)
    assert planned[1]()["replay"]["bytes"] == full


def test_a_command_for_more_episodes_than_memory_can_hold_is_refused(small, tmp_path):
    words = over(small, "buffer.max_bytes=1e15", "buffer.capacity=2e10")
    with pytest.raises(UsageError, match=r"GB.*memory are free here: set buffer\.capacity="):
        rltrain.make_trainer(words, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
