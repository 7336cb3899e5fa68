"""Learning from given batches, alone or as one of the processes of torchrun:
``torchrun … -m tests.hardware.ddp.learning FILE`` saves what ``results`` gives.
"""

import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import torch

import rltrain
from rltrain.hardware.ddp.ranks import Ranks, torchrun_ranks
from rltrain.types import Batch, Clock, EnvSpec, LossResult
from tests.algo.batches import make_batch

ALONE = EnvSpec(n_agents=1, n_actions=4, obs_shape=(3,))
TEAM = EnvSpec(n_agents=2, n_actions=4, obs_shape=(3,), state_dim=5, max_steps=6)
CASES = {"dqn": (ALONE, [1] * 8), "c51": (ALONE, [1] * 8), "qmix": (TEAM, [5, 3, 6, 2, 1, 6, 1, 5])}
WORDS = ["tuned=none", "hardware.threads=1", "hardware.kernels=torch"]
OF_WINDOWS = ("weight", "index")  # their first axis is that of windows; elsewhere it is the second


class Unchecked:
    """Accepts batches of any precision."""

    def __call__(self, batch: Batch) -> None: ...
    def require_indices(self, batch: Batch) -> None: ...

    def result(self, result: LossResult, batch: Batch) -> LossResult:
        return result


def learner_of(algo: str, dtype: torch.dtype):
    torch.set_default_dtype(dtype)
    try:
        learner = rltrain.make_learner([f"algo={algo}", *WORDS], CASES[algo][0])
    finally:
        torch.set_default_dtype(torch.float32)
    learner.check = Unchecked()
    return learner


def batch_of(algo: str, i: int, dtype: torch.dtype, rank: int = 0, world_size: int = 1) -> Batch:
    """One rank's windows of batch number ``i``."""
    spec, lengths = CASES[algo]
    whole, n = make_batch(lengths, spec, seed=i), len(lengths) // world_size
    own = slice(rank * n, (rank + 1) * n)

    def part(name: str, value: torch.Tensor) -> torch.Tensor:
        value = value[own] if name in OF_WINDOWS else value[:, own]
        return value.to(dtype) if value.is_floating_point() else value

    tensors = {f.name: getattr(whole, f.name) for f in fields(Batch)}
    tensors = {k: part(k, v) for k, v in tensors.items() if isinstance(v, torch.Tensor)}
    return replace(whole, **tensors)


def learn(algo, dtype, n_updates, sum_over_ranks=None, rank=0, world_size=1):
    """Weights after these updates, and the last gradient."""
    learner = learner_of(algo, dtype)
    learner.gradient_step.sum_over_ranks = sum_over_ranks
    for i in range(n_updates):
        clock = Clock(env_steps=i, episodes=i, updates=i)
        learner.update(batch_of(algo, i, dtype, rank, world_size), clock)
    step = learner.gradient_step
    assert step.weights.dtype == dtype
    return step.weights.numpy().copy(), step.flat.gradient.numpy().copy()


def results(sum_over_ranks=None, rank=0, world_size=1) -> dict[str, np.ndarray]:
    """Of every algorithm the weights after 100 updates in float64, one gradient in float32."""
    found = {}
    for algo in CASES:
        more = (sum_over_ranks, rank, world_size)
        found[f"{algo}_weights"], _ = learn(algo, torch.float64, 100, *more)
        _, found[f"{algo}_gradient"] = learn(algo, torch.float32, 1, *more)
    return found


if __name__ == "__main__":
    rank, world_size, _ = torchrun_ranks()
    ranks = Ranks(rank=rank, world_size=world_size, device=torch.device("cpu"), timeout=60)
    ranks.start()
    np.savez(Path(sys.argv[1]) / f"{rank}.npz", **results(ranks.sum, rank, world_size))
    ranks.close()
