"""Weights & Biases: offline without an account, silent, and nothing at all where it is disabled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rltrain.logger.wandb import Wandb
from rltrain.types import Clock

ROW = {"test/return_mean": 12.5, "test/win_rate": 0.5}


def test_without_a_key_a_run_is_recorded_offline(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    logger = Wandb(tmp_path, {"seed": 1}, "online", project="rltrain")
    logger.write(Clock(1), 0.1, ROW)
    logger.close()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "warnings"), [("offline", 0), ("online", 1), ("disabled", 0)])
def test_a_run_of_somebody_without_an_account(small, own_folder, mode, warnings):
    words = [w for w in small if not w.startswith("logger.")]
    words += [f"logger.wandb.mode={mode}", "hydra.run.dir=run"]
    nobody = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}
    nobody["NETRC"] = str(own_folder / "none")
    done = subprocess.run(
        [sys.executable, "-m", "rltrain", *words], capture_output=True, text=True, env=nobody
    )
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == warnings
    recorded = list(own_folder.glob("run/wandb/offline-run-*"))
    assert len(recorded) == (mode != "disabled")
    assert ("wandb sync run/wandb/offline-run-*" in done.stdout) == (mode != "disabled")
    assert done.stdout.count("wandb") == (1 if mode == "disabled" else 3)  # the banner's line
