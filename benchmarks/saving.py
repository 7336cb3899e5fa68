"""CPU time of checkpoints in default runs of DQN on CartPole and QMIX on 3m: ``python -m
benchmarks.saving [total_env_steps=…]``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rltrain.main import run
from rltrain.trainer import Trainer

RUNS = (["algo=dqn", "env=cartpole"], ["algo=qmix", "env=smac"])
QUIET = ["hardware.threads=1", "logger.console=false", "logger.wandb.mode=disabled"]


def measure(overrides: Sequence[str], folder: str) -> None:
    """Print the CPU seconds of each checkpoint of a run, and of everything else."""
    plain, seconds = Trainer.save, []

    def save(self: Trainer, *args: Any, **kwargs: Any) -> Path:
        begun = time.process_time()
        made = plain(self, *args, **kwargs)
        seconds.append(time.process_time() - begun)
        size = sum(file.stat().st_size for file in made.iterdir())
        print(f"  {self.clock.env_steps:,} env steps: {seconds[-1]:.3f} s, {size / 1e6:.1f} MB")
        return made

    Trainer.save = save  # type: ignore[method-assign]
    begun = time.process_time()
    assert run([*overrides, *QUIET, f"hydra.run.dir={folder}/run"]) == 0
    total = time.process_time() - begun
    Trainer.save = plain  # type: ignore[method-assign]
    share = sum(seconds) / total
    print(f"{' '.join(overrides)}: {sum(seconds):.2f} s of {total:.1f} s, {share:.2%}", flush=True)


if __name__ == "__main__":
    for words in RUNS:
        with tempfile.TemporaryDirectory() as temporary:
            measure([*words, *(sys.argv[1:] or ["total_env_steps=100000"])], temporary)
