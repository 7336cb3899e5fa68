"""What must never be in the files of a run."""

import os
import subprocess
import sys

import pytest

SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "HF_TOKEN": "hf_notAToken0123456789",
    "SECRET_OF_MINE": "do-not-write-this",
}


def files_with_secrets(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    texts = {path: path.read_bytes() for path in files}
    return [p for p, text in texts.items() if any(s.encode() in text for s in SECRETS.values())]


def test_no_file_of_a_run_holds_a_secret(command, small, own_folder, monkeypatch):
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    words = ["logger=[csv,tensorboard,wandb]", "hydra.run.dir=run", "total_env_steps=60"]
    assert command(*small, *words) == 0
    assert command("mode=evaluate", "checkpoint=run", "test.episodes=1") == 0
    assert files_with_secrets(own_folder) == []


@pytest.mark.slow
def test_wandb_writes_no_secret_either(small, own_folder):
    words = [w for w in small if "wandb" not in w]
    words += ["logger=[wandb]", "logger.wandb.mode=offline", "hydra.run.dir=run"]
    environment = {**os.environ, **SECRETS, "WANDB_MODE": "offline"}
    subprocess.run([sys.executable, "-m", "rltrain", *words], env=environment, check=True)
    assert list(own_folder.rglob("*.wandb"))
    assert files_with_secrets(own_folder) == []
