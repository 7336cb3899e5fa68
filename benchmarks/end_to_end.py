"""Env steps per second of the default command, acting, learning, tests and saving included, and the
battle engine's share of a training run's time.

python -m benchmarks.end_to_end
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import rltrain

ENV_STEPS = 60_000
MAPS, SHARE_STEPS = ("3m", "8m", "2s3z", "MMM"), 12_000


def whole_command(env_steps: int) -> str:
    """The default command from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "rltrain", "algo=qmix", "env=smac"]
        command += [f"total_env_steps={env_steps}", f"hydra.run.dir={run_dir}"]
        subprocess.run(command, check=True, capture_output=True)
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    return (
        f"rltrain algo=qmix env=smac (3m): {record['env_steps'] / record['seconds']:,.0f} env "
        f"steps/s over {record['env_steps']:,} env steps and {record['updates']:,} updates"
    )


def engine_share(map_name: str) -> float:
    """Share of the loop's time that is spent in the environment's ``step``."""
    words = ["algo=qmix", "env=smac", f"env.map_name={map_name}", "logger.wandb.mode=disabled"]
    with tempfile.TemporaryDirectory() as folder:
        trainer = rltrain.make_trainer([*words, "logger.console=false"], run_dir=folder)
        trainer.run(4_000)  # fill a batch first
        env, inside = trainer.rollout.env, 0.0  # type: ignore[attr-defined]
        step = env.step

        def timed(action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            nonlocal inside
            began = time.perf_counter()
            result: tuple[np.ndarray, np.ndarray] = step(action)
            inside += time.perf_counter() - began
            return result

        env.step = timed
        began = time.perf_counter()
        trainer.run(SHARE_STEPS)
        whole = time.perf_counter() - began
        trainer.close()
    return inside / whole


def main(env_steps: int = ENV_STEPS) -> None:
    console = Console(highlight=False)
    console.print(whole_command(env_steps))
    for map_name in MAPS:
        console.print(f"battles take {engine_share(map_name):.1%} of QMIX's training on {map_name}")


if __name__ == "__main__":
    main()
