"""The pages on loggers and sweeps: what they show works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rltrain.api import settings_from
from rltrain.config.command_line import read

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_a_logger_of_one_s_own(command, small, own_folder, monkeypatch, capsys):
    (code,), (file,) = blocks("loggers.md", "python"), blocks("loggers.md", "yaml")
    (own_folder / "my_module.py").write_text(code)
    (own_folder / "myconf/logger").mkdir(parents=True)
    (own_folder / "myconf/logger/printed.yaml").write_text(file)
    others = [word for word in small if not word.startswith("logger.wandb")]
    overrides = [*others, "logger=[printed]", "total_env_steps=20", "test.episodes=1"]
    assert command("--config-dir=myconf", *overrides) == 0
    assert "metrics 0 {'test/return_mean'" in capsys.readouterr().out


@pytest.mark.parametrize("lr", ["0.0012", "2.5e-4"])
def test_the_command_of_an_agent_of_wandb_composes(lr):
    (sweep,) = [yaml.safe_load(text) for text in blocks("sweeps.md", "yaml")]
    chosen = {"algo.optimizer.lr": lr, "algo.batch_size": 64}
    assert set(sweep["parameters"]) == set(chosen)
    program, *words = sweep["command"]
    assert (program, words.pop()) == ("rltrain", "${args_no_hyphens}")
    settings = settings_from(read([*words, *(f"{k}={v}" for k, v in chosen.items())]).overrides)
    assert settings.algo.batch_size == 64
    assert settings.nodes["algo.optimizer"].kwargs["lr"] == float(lr)
    assert settings.nodes["logger.wandb"].kwargs["mode"] == "online"
