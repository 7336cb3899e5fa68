"""Training results on control tasks: several seeds, run to the end, left alone, put into a table.

    python -m benchmarks.control run cartpole:1-5 cartpole-c51:1-3
    python -m benchmarks.control table

`run` trains two at a time, one thread each; finished runs are skipped, interrupted ones resumed.
Every run is the command it prints. `table` judges each run by its last test: 20 greedy episodes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.runs import folders, record_of, run_all, seed_of, seeds
from rltrain.logger.curve import rows, series

OUTPUT = Path("outputs/control")
ALWAYS = "test.episodes=20 test.n_envs=20"
CARTPOLE = (
    "env=cartpole total_env_steps=100_000 algo.optimizer.lr=1e-3 "
    "algo.lr_schedule=[[0,1e-3],[100_000,1e-5]] algo.exploration.env_steps=20_000"
)
"""What every method but the presets' own plays CartPole with."""
SQUARED = "algo.loss.n_step=3 algo.loss.huber=null"
"""A fall is rare and its error large: the Huber loss would teach it too slowly."""
TASKS = {
    "cartpole-dqn": "algo=dqn env=cartpole",
    "cartpole": "experiment=zoo/cartpole",
    "acrobot": "experiment=zoo/acrobot",
    "mountaincar": "experiment=zoo/mountaincar",
    "lunarlander": "experiment=zoo/lunarlander total_env_steps=250_000",
    "lunarlander-double-dueling-3": (
        "experiment=zoo/lunarlander total_env_steps=250_000 algo.loss.double=true "
        "algo.network.dueling=true algo.loss.n_step=3 algo.updates_per_env_step=0.5"
    ),
    "cartpole-simple_q": f"algo=simple_q {CARTPOLE}",
    "cartpole-c51": (f"algo=c51 {CARTPOLE} algo.distribution.v_min=0 algo.distribution.v_max=100"),
    "cartpole-qrdqn": f"algo=qrdqn {CARTPOLE}",
    "cartpole-munchausen": (
        f"algo=munchausen_dqn {CARTPOLE} {SQUARED} algo.batch_size=128 "
        "algo.updates_per_env_step=0.5"
    ),
    "cartpole-noisy": (
        f"algo=noisy algo.loss.n_step=3 {CARTPOLE.rpartition(' ')[0]} algo.batch_size=128 "
        "algo.updates_per_env_step=0.5 total_env_steps=60_000"
    ),
    "cartpole-rainbow": (
        f"algo=rainbow {CARTPOLE.rpartition(' ')[0]} "
        "algo.distribution.v_min=0 algo.distribution.v_max=100"
    ),
    "cartpole-iqn": f"algo=iqn {CARTPOLE}",
    "cartpole-drqn": f"algo=drqn {CARTPOLE} {SQUARED} algo.target_update.env_steps=250",
    "cartpole-pqn": "experiment=cleanrl/pqn_cartpole algo.loss.trace=0.9",
    "breakout": "experiment=minatar/double_dqn env.game=breakout total_env_steps=2_000_000",
    "trading": "experiment=trading",
}


def interquartile_mean(values: list[float]) -> float:
    """The mean of the middle half, values at its edges counted in part (Agarwal et al. 2021)."""
    x = np.sort(np.asarray(values, float))
    left = np.arange(len(x)) / len(x)
    share = np.clip(np.minimum(left + 1 / len(x), 0.75) - np.maximum(left, 0.25), 0, None)
    return float((x * share).sum() / share.sum())


def line(task: str) -> str | None:
    """A row of the table: what the last tests of all finished seeds say."""
    finals, minutes, n_steps = {}, [], 0
    for folder in folders(OUTPUT, task):
        record = record_of(folder)
        if record.get("status") == "finished":
            _, returns = series(rows(folder / "metrics.jsonl"), "test/return_mean")
            finals[seed_of(folder)] = returns[-1]
            minutes.append(record["seconds"] / 60)
            n_steps = record["env_steps"]
    if not finals:
        return None
    each = ", ".join(f"{value:.1f}" for value in finals.values())
    return (
        f"| {task} | {n_steps:,} | {len(finals)} | {interquartile_mean(list(finals.values())):.1f} "
        f"| {each} | {sum(minutes) / len(minutes):.1f} |"
    )


def jobs(words: list[str]) -> list[tuple[Path, list[str]]]:
    """``cartpole:1-5`` to five folders and what is typed for them."""
    out = []
    for word in words:
        task, _, numbers = word.partition(":")
        if task not in TASKS:
            sys.exit(f"{task} is none of {', '.join(TASKS)}.")
        for seed in seeds(numbers):
            typed = [*TASKS[task].split(), f"seed={seed}", *ALWAYS.split()]
            out.append((OUTPUT / f"{task}-s{seed}", typed))
    return out


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        run_all(jobs(sys.argv[2:]))
    elif sys.argv[1:] == ["table"]:
        print("| task | env steps | seeds | IQM of the last tests | each | minutes |")
        print("| --- | --- | --- | --- | --- | --- |")
        print("\n".join(filter(None, map(line, TASKS))))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
