"""Whole training runs in one process and with workers, in turns: python -m benchmarks.speed.workers

Prints for every round the env steps per second of each, from after the workers have started, and
the median of the ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

import gymnasium

import rltrain

COMMON = ["hardware.threads=1", "test.interval=100000000", "test.episodes=1", "tuned=none"]
CASES: dict[str, list[str]] = {
    "lbf": ["algo=vdn", "env=lbf"],
    "lbf_collecting": ["algo=vdn", "env=lbf", "algo.learning_starts=1e9"],
    "pause": ["algo=dqn", "algo.learning_starts=200"],
    "pause_collecting": ["algo=dqn", "algo.learning_starts=90000"],
}
"""Without learning in those that collect: it starts after the time measured."""
MACHINES = {
    "local": [],
    "process": ["hardware=process"],
    "overlap": ["hardware=process", "hardware.overlap=true"],
}


PAUSE = float(os.environ.get("PAUSE_MS", "2")) / 1000


class Pause(gymnasium.Wrapper):
    """CartPole whose step waits for PAUSE_MS milliseconds."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action: Any) -> Any:
        time.sleep(PAUSE)
        return self.env.step(action)


def speed(case: str, machine: str, seconds: float, n_envs: int) -> float:
    """Env steps per second of a training run, measured for ``seconds`` after its start."""
    from benchmarks.speed import workers  # as the workers import it

    sizes = [f"hardware.n_envs={n_envs}", "total_env_steps=100000000"]
    overrides = [*COMMON, *CASES[case], *MACHINES[machine], *sizes]
    with tempfile.TemporaryDirectory() as folder:
        trainer = rltrain.make_trainer(
            overrides, run_dir=folder, env=workers.Pause if case.startswith("pause") else None
        )
        trainer.run(400)
        before, begun = trainer.clock.env_steps, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            trainer.run(trainer.clock.env_steps + 50)
        rate = (trainer.clock.env_steps - before) / (time.perf_counter() - begun)
        trainer.close()
    return rate


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--envs", type=int, default=8)
    chosen = parser.parse_args()
    ratios: dict[str, list[float]] = {"process": [], "overlap": []}
    for _ in range(chosen.rounds):
        rates = {name: speed(chosen.case, name, chosen.seconds, chosen.envs) for name in MACHINES}
        for name, found in ratios.items():
            found.append(rates[name] / rates["local"])
        print({name: round(rate) for name, rate in rates.items()}, flush=True)
    print({name: round(statistics.median(found), 2) for name, found in ratios.items()})


if __name__ == "__main__":
    main()
