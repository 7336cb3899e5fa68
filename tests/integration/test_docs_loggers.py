"""The pages on loggers and sweeps: what they show works as it stands there."""

import os
import re
import subprocess
import sys
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


def test_the_slurm_job_requeues_itself_when_the_runs_have_saved(own_folder):
    (script,) = [text for text in blocks("sweeps.md", "bash") if "#SBATCH" in text]
    saves = own_folder / "saves.py"  # in place of the command: saves on SIGUSR1
    saves.write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *about: sys.exit(85))\n"
        "os.kill(os.getppid(), signal.SIGUSR1)\n"
        "signal.pause()\n"
    )
    command = next(line for line in script.splitlines() if "rltrain -m" in line)
    script = script.replace(command, f"{sys.executable} {saves} &")
    scontrol = own_folder / "scontrol"
    scontrol.write_text('#!/bin/bash\necho "$@" > requeued\n')
    scontrol.chmod(0o755)
    env = {**os.environ, "PATH": f"{own_folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, timeout=60)
    assert (done.returncode, (own_folder / "requeued").read_text()) == (0, "requeue 7\n")
