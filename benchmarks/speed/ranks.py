"""Compare two learners of one thread with one learner of two threads, in turns:
python -m benchmarks.speed.ranks CASE

Prints the env steps per second of both training runs per round, without tests, and the median
ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COMMON = [
    *("tuned=none", "hardware.n_envs=8", "test.interval=100000000", "test.episodes=2"),
    *("save.replay_buffer=false", "logger.wandb.mode=disabled", "logger.console=false"),
]
CASES: dict[str, list[str]] = {
    "dqn": ["algo=dqn", "env=cartpole", "log.interval=1000"],
    "wide": [
        *("algo=dqn", "env=cartpole", "log.interval=200", "algo.batch_size=1024"),
        *("algo.network.hidden_sizes=[1024]", "algo.network.head_sizes=[1024]"),
    ],
    "qmix": ["algo=qmix", "env=smac", "log.interval=1000"],
}
STEPS = {"dqn": 40_000, "wide": 3_000, "qmix": 20_000}
"""Env steps of a round."""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "rltrain"]
MACHINES = {
    "2 threads": ["-m", "rltrain", "hardware.threads=2"],
    "2 ranks": [*TORCHRUN, "hardware=ddp", "hardware.threads=1"],
}


def speed(case: str, machine: str) -> float:
    """Env steps per second between the first row of metrics after learning began and the last."""
    root = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder:
        words = [*MACHINES[machine], *CASES[case], *COMMON, f"total_env_steps={STEPS[case]}"]
        subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            check=True,
        )
        (path,) = Path(folder).glob("outputs/*/*/metrics.jsonl")
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = [row for row in rows if "time/env_steps_per_s" in row and row["updates"] > 0]
    steps, seconds = (rows[-1][key] - rows[0][key] for key in ("env_steps", "seconds"))
    return float(steps / seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    ratios = []
    for _ in range(chosen.rounds):
        rates = {name: speed(chosen.case, name) for name in MACHINES}
        ratios.append(rates["2 ranks"] / rates["2 threads"])
        print({name: round(rate) for name, rate in rates.items()}, flush=True)
    print(f"2 ranks / 2 threads: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
