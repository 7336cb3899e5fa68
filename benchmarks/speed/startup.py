"""Start-up: seconds from the start of a command to its help, to a refused value, to the banner and
to the first step of an environment, compared with ``import torch``; and the duration of runs of one
iteration in one process, with workers and with two ranks.

python -m benchmarks.speed.startup [--machines]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from rltrain.callback import Callback
from rltrain.interfaces import VectorEnv

RUNS = 5
RLTRAIN = ("-m", "rltrain")
CARTPOLE = (*RLTRAIN, "env=cartpole", "total_env_steps=1", "algo.learning_starts=1")
MARK = "reached"
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "import torch": ("-c", "import torch"),
    "rltrain --help": (*RLTRAIN, "--help"),
    "a wrong value": (*RLTRAIN, "env=cartpole", "algo.batch_size=many"),
}
"""Commands whose time to the end counts."""
SHORT = (
    *("env=cartpole", "total_env_steps=8", "hardware.threads=1", "test.episodes=1"),
    *("tuned=none", "logger.wandb.mode=disabled", "save.replay_buffer=false"),
)
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *RLTRAIN)
MACHINES: Mapping[str, tuple[str, ...]] = {
    "one iteration": (*RLTRAIN, *SHORT),
    "… hardware=process, 4 workers": (*RLTRAIN, *SHORT, "hardware=process"),
    "… hardware=ray, 4 workers": (*RLTRAIN, *SHORT, "hardware=ray", "hardware.worker_cpus=0.25"),
    "… hardware=ddp, 2 ranks": (*TORCHRUN, *SHORT, "hardware=ddp"),
}
"""Runs of one iteration, tests at its start and end included."""
POINTS = ("banner", "first env step")


class Marks(Callback):
    """Prints when the banner has been shown and when the first environment has stepped."""

    def on_train_start(self, trainer: Any, value: Any = None) -> Any:
        mark("banner")
        env: VectorEnv = trainer.test_rollout.env  # a test comes first
        step = env.step

        def first(action: Any) -> Any:
            result = step(action)
            del vars(env)["step"]
            mark("first env step")
            return result

        vars(env)["step"] = first
        return value


def mark(point: str) -> None:
    """Print that this point is reached, and the CPU time of the main thread so far."""
    print(f"{MARK} {point}: {time.thread_time()}", flush=True)


def answer(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of a Python command, and its CPU seconds."""
    before, began = children_cpu(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, *arguments], capture_output=True, cwd=folder)
    return time.perf_counter() - began, children_cpu() - before


def of_all_processes(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of a Python command, and the CPU seconds of it and all its descendants, which are
    looked at ten times a second.

    Raises:
        RuntimeError: the command failed.
    """
    began, found = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        run = psutil.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        while run.poll() is None:
            with suppress(psutil.Error):
                for process in [run, *run.children(recursive=True)]:
                    with suppress(psutil.Error):
                        times = process.cpu_times()
                        found[process.pid] = times.user + times.system
            time.sleep(0.1)
    if run.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {run.returncode}")
    return time.perf_counter() - began, sum(found.values())


def children_cpu() -> float:
    """CPU seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def run_to_first_step() -> dict[str, tuple[float, float]]:
    """Seconds from the start of a run to each of ``POINTS``, and the main thread's CPU seconds."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        words = [*CARTPOLE, "callbacks=[{_target_: benchmarks.speed.startup.Marks}]"]
        words.append(f"hydra.run.dir={folder}/run")
        began = time.perf_counter()
        run = subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith(MARK):
                point, _, cpu = line.removeprefix(MARK).strip().partition(": ")
                found[point] = (time.perf_counter() - began, float(cpu))
        if run.wait():
            raise RuntimeError(f"rltrain {' '.join(words[2:])}: exit code {run.returncode}")
    return found


def main() -> None:
    """Print the medians."""
    if sys.argv[1:] == ["--machines"]:
        for name, arguments in MACHINES.items():
            report(name, [of_all_processes(arguments) for _ in range(RUNS)])
        return
    for name, arguments in ANSWERS.items():
        report(name, [answer(arguments) for _ in range(RUNS)])
    runs = [run_to_first_step() for _ in range(RUNS)]
    for point in POINTS:
        report(f"rltrain env=cartpole to its {point}", [run[point] for run in runs])


def report(name: str, times: Sequence[tuple[float, float]]) -> None:
    """Print the medians of seconds and CPU seconds."""
    wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"{name}: {wall:.2f} s, CPU {cpu:.2f} s")


if __name__ == "__main__":
    main()
