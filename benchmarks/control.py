"""Training results on control tasks: several seeds, run to the end, left alone, put into a table.

    python -m benchmarks.control run cartpole:1-5 cartpole-c51:1-3
    python -m benchmarks.control table

`run` trains two at a time, one thread each; finished runs are skipped, interrupted ones resumed.
Every run is the command it prints. `table` judges each run by its last test: 20 greedy episodes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.report.curve import rows, series

OUTPUT = Path("outputs/control")
AT_ONCE = 2
ALWAYS = "hardware.threads=1 logger.wandb.mode=disabled test.episodes=20 test.n_envs=20"
CARTPOLE = (
    "env=cartpole total_env_steps=100_000 algo.optimizer.lr=1e-3 "
    "algo.lr_schedule=[[0,1e-3],[100_000,1e-5]] algo.exploration.env_steps=20_000"
)
"""What every method but the presets' own plays CartPole with."""
TASKS = {
    "cartpole": "experiment=zoo/cartpole",
    "acrobot": "experiment=zoo/acrobot",
    "mountaincar": "experiment=zoo/mountaincar",
    "lunarlander": "experiment=zoo/lunarlander total_env_steps=250_000",
    "lunarlander-double-dueling-3": (
        "experiment=zoo/lunarlander total_env_steps=250_000 algo.loss.double=true "
        "algo.network.dueling=true algo.loss.n_step=3"
    ),
    "cartpole-simple_q": f"algo=simple_q {CARTPOLE}",
    "cartpole-c51": (f"algo=c51 {CARTPOLE} algo.distribution.v_min=0 algo.distribution.v_max=100"),
    "cartpole-qrdqn": f"algo=qrdqn {CARTPOLE}",
    "cartpole-munchausen": f"algo=munchausen_dqn {CARTPOLE}",
    "cartpole-noisy": (
        f"algo=dqn algo/exploration=greedy algo.network.noisy_sigma=0.5 "
        f"{CARTPOLE.rpartition(' ')[0]}"
    ),
    "cartpole-rainbow": (
        f"algo=rainbow {CARTPOLE.rpartition(' ')[0]} "
        "algo.distribution.v_min=0 algo.distribution.v_max=100"
    ),
    "cartpole-iqn": f"algo=iqn {CARTPOLE}",
    "cartpole-drqn": f"algo=drqn {CARTPOLE}",
    "cartpole-pqn": "experiment=cleanrl/pqn_cartpole",
    "breakout": (
        "experiment=minatar/dqn env.game=breakout total_env_steps=2_000_000 "
        "algo.optimizer.lr=0.00195"
    ),
    "trading": "experiment=trading",
}


def run(task: str, seed: int) -> None:
    """Train to the end, from wherever the run stands."""
    folder = OUTPUT / f"{task}-s{seed}"
    if record_of(folder).get("status") == "finished":
        return
    if (folder / "checkpoints" / "latest").exists():
        words = [f"resume={folder}"]
    else:
        words = [*TASKS[task].split(), f"seed={seed}", *ALWAYS.split()]
        words += [f"hydra.run.dir={folder}"]
    print("rltrain", *words, flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.txt").open("a", encoding="utf-8") as out:
        command = [sys.executable, "-m", "rltrain.main", *words]
        subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)


def record_of(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def interquartile_mean(values: list[float]) -> float:
    """The mean of the middle half, values at its edges counted in part (Agarwal et al. 2021)."""
    x = np.sort(np.asarray(values, float))
    left = np.arange(len(x)) / len(x)
    share = np.clip(np.minimum(left + 1 / len(x), 0.75) - np.maximum(left, 0.25), 0, None)
    return float((x * share).sum() / share.sum())


def line(task: str) -> str | None:
    """A row of the table: what the last tests of all finished seeds say."""
    finals, minutes, n_steps = {}, [], 0
    for folder in sorted(OUTPUT.glob(f"{task}-s[0-9]*/")):
        record = record_of(folder)
        if record.get("status") == "finished":
            _, returns = series(rows(folder / "metrics.jsonl"), "test/return_mean")
            finals[folder.name.rpartition("-s")[2]] = returns[-1]
            minutes.append(record["seconds"] / 60)
            n_steps = record["env_steps"]
    if not finals:
        return None
    each = ", ".join(f"{value:.1f}" for value in finals.values())
    return (
        f"| {task} | {n_steps:,} | {len(finals)} | {interquartile_mean(list(finals.values())):.1f} "
        f"| {each} | {sum(minutes) / len(minutes):.1f} |"
    )


def jobs(words: list[str]) -> list[tuple[str, int]]:
    """``cartpole:1-5`` to (cartpole, 1) … (cartpole, 5)."""
    out = []
    for word in words:
        task, _, seeds = word.partition(":")
        if task not in TASKS:
            sys.exit(f"{task} is none of {', '.join(TASKS)}.")
        first, _, last = seeds.partition("-")
        out += [(task, seed) for seed in range(int(first), int(last or first) + 1)]
    return out


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda job: run(*job), jobs(sys.argv[2:])))
    elif sys.argv[1:] == ["table"]:
        print("| task | env steps | seeds | IQM of the last tests | each | minutes |")
        print("| --- | --- | --- | --- | --- | --- |")
        print("\n".join(filter(None, map(line, TASKS))))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
