"""The trained agents that come with rltrain, ``checkpoint=demo/NAME``: python -m benchmarks.demos

Trains them (about half an hour on two idle cores), and writes the weights of each one's best test
to rltrain/demos/, in half precision and without the optimizer. Finished runs in the folder of
``--runs`` are not repeated. Run it again when the rules of battles change; if only configuration
keys are new, ``--configs`` rewrites the configurations and keeps the weights.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch

import rltrain
from benchmarks.runs import record_of, run_all
from rltrain.api import settings_from
from rltrain.common import checkpoint
from rltrain.common.checkpoint import CONFIG, MODEL, SPEC
from rltrain.common.checkpoint.run_checkpoints import seal
from rltrain.mode.find_run import DEMOS, find_checkpoint

SMAC = ("algo=qmix", "env=smac")
RUNS = {
    "cartpole": ("algo=dqn", "env=cartpole", "total_env_steps=50_000"),
    "3m": (*SMAC, "env.map_name=3m", "total_env_steps=300_000"),
    "2s3z": (*SMAC, "env.map_name=2s3z", "total_env_steps=500_000"),
    "MMM": (*SMAC, "env.map_name=MMM", "total_env_steps=600_000"),
}
KEPT = ("version", "environment", "env_steps", "updates", "best_test")
"""Facts of run.json."""


def main() -> None:
    """Train, write and evaluate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demos")
    parser.add_argument("names", nargs="*", default=list(RUNS), help="all, if none is named")
    parser.add_argument("--runs", type=Path, default=Path("outputs/demos"), help="their folder")
    parser.add_argument("--configs", action="store_true", help="write config.json only")
    chosen = parser.parse_args()
    if chosen.configs:
        for name in chosen.names:
            write_config(name)
        return
    run_all([(chosen.runs.absolute() / name, list(RUNS[name])) for name in chosen.names])
    for name in chosen.names:
        write(chosen.runs / name, DEMOS / name)
        metrics = rltrain.evaluate(DEMOS / name, episodes=100).metrics
        print(name, {k: round(v, 3) for k, v in metrics.items() if k.endswith(("mean", "rate"))})


def write(run_dir: Path, folder: Path) -> None:
    """The demo of a run, in the place of an earlier one."""
    source = find_checkpoint(run_dir, "best")
    online = checkpoint.read(source.folder, MODEL)["online"]
    weights = {
        key: weight.half() if weight.ndim > 1 and weight.dtype == torch.float32 else weight
        for key, weight in online.items()
    }
    parts: dict[str, Any] = {MODEL: {"online": weights}}
    parts |= {SPEC: checkpoint.read(source.folder, SPEC), CONFIG: config_of(folder.name)}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    checkpoint.write(folder / "checkpoints", source.step, parts, "weights")
    facts = {key: value for key, value in record_of(run_dir).items() if key in KEPT}
    (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def write_config(name: str) -> None:
    """The configuration of a demo, as it is composed today."""
    (folder,) = (DEMOS / name / "checkpoints").iterdir()
    (folder / f"{CONFIG}.json").write_text(json.dumps(config_of(name)), encoding="utf-8")
    seal(folder, "weights")


def config_of(name: str) -> dict[str, Any]:
    """The configuration of a demo's training."""
    return settings_from([*RUNS[name], "logger=[csv]"]).record


if __name__ == "__main__":
    main()
