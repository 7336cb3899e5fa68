"""The command with Gymnasium environments that break, are drawn, or cannot be played."""

import sys
from typing import Any

import pytest
from PIL import Image

from rltrain import main as entry
from rltrain.errors import UsageError
from tests.env import scripted  # noqa: F401  registers its environments


def command(*overrides: str) -> int:
    return entry.run(list(overrides))


SHORT = ["algo=dqn", "env=gymnasium", "total_env_steps=50", "algo.learning_starts=8"]
SHORT += ["hardware.n_envs=1", "hardware.threads=1", "logger.wandb.mode=disabled"]
SHORT += ["test.episodes=1", "test.interval=1_000", "logger.console=false"]


def test_the_command_leaves_with_4_when_the_environment_breaks(monkeypatch, own_folder, capsys):
    overrides = [*SHORT, "env.id=BrokenReward-v0"]
    monkeypatch.setattr(sys, "argv", ["rltrain", *overrides])
    assert command(*overrides) == 4
    (log,) = own_folder.glob("outputs/*-*/*/train.log")
    assert "BrokenReward-v0 at step 2" in log.read_text(encoding="utf-8")
    assert "mode=evaluate" not in capsys.readouterr().out  # there is no checkpoint


def test_the_command_films_what_the_environment_draws(monkeypatch: Any, own_folder: Any) -> None:
    monkeypatch.setenv("PATH", str(own_folder))  # no ffmpeg
    overrides = [*SHORT, "env.id=Drawn-v0"]
    monkeypatch.setattr(sys, "argv", ["rltrain", *overrides])
    assert command(*overrides) == 0
    (run,) = own_folder.glob("outputs/*-*/*")
    assert command("mode=evaluate", f"checkpoint={run}", "record=video") == 0
    (film,) = run.glob("recordings/*/*.gif")
    with Image.open(film) as shown:
        assert (shown.n_frames, shown.info["duration"]) == (4, 50)  # 3 steps, 20 a second


def test_the_command_refuses_continuous_actions_before_anything_is_written(own_folder: Any) -> None:
    with pytest.raises(UsageError, match=r"Continuous-v0 has actions Box.*Discrete") as e:
        command(*SHORT, "env.id=Continuous-v0")
    assert e.value.exit_code == 2
    assert not list(own_folder.iterdir())
