"""Gradient steps on a GPU: agreement with the CPU, and duration; seeds that share one.

    python -m benchmarks.speed.gpu methods   # every method: CPU, GPU and CUDA graphs
    python -m benchmarks.speed.gpu updates   # microseconds of a gradient step
    python -m benchmarks.speed.gpu cpu       # the same on one thread of the CPU
    python -m benchmarks.speed.gpu seeds     # env steps a second of ten seeds of PQN

Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import rltrain
import rltrain.hardware.device
from rltrain.types import Batch, Clock, EnvSpec

TEAM = EnvSpec(n_agents=3, n_actions=9, obs_shape=(9,), state_dim=11)
UNITS = replace(
    TEAM,
    layout={
        "obs": {
            "enemies": {"start": 0, "count": 1, "size": 3},
            "allies": {"start": 3, "count": 2, "size": 2},
            "own": {"start": 7, "count": 1, "size": 2},
        },
        "state": {},
    },
)
SINGLE = EnvSpec(n_agents=1, n_actions=4, obs_shape=(6,))
PIXELS = EnvSpec(
    n_agents=1, n_actions=4, obs_shape=(4, 10, 10), obs_dtype="uint8", obs_scale=1 / 255
)
ATARI = EnvSpec(
    n_agents=1, n_actions=6, obs_shape=(4, 84, 84), obs_dtype="uint8", obs_scale=1 / 255
)
MAP_3S5Z = EnvSpec(n_agents=8, n_actions=14, obs_shape=(128,), state_dim=216)
MAP_3M = EnvSpec(n_agents=3, n_actions=9, obs_shape=(30,), state_dim=48)


class Case(NamedTuple):
    """A learner and the size of its batches."""

    overrides: tuple[str, ...]
    spec: EnvSpec
    n_steps: int  # T
    n_windows: int  # B


def team(*overrides: str, spec: EnvSpec = TEAM) -> Case:
    return Case(overrides, spec, 8, 6)


def single(*overrides: str, spec: EnvSpec = SINGLE) -> Case:
    n_step = 3 if "algo=rainbow" in overrides else 1
    return Case(overrides, spec, n_step, 16)


TEAM_METHODS = (
    *("iql", "vdn", "qmix", "qplex", "qplex_attention", "qatten", "qtran", "ow_qmix", "cw_qmix"),
)
DRAWN = ("noisy", "iqn", "rainbow")
"""Methods whose gradient steps draw random numbers, on a GPU others than on the CPU."""
SINGLE_METHODS = ("dqn", "c51", "qrdqn", "munchausen_dqn", *DRAWN)
METHODS = (
    *(team(f"algo={name}") for name in TEAM_METHODS),
    team("algo=qmix", "algo/network=lstm"),
    team("algo=qmix", "algo/network=hpn", spec=UNITS),
    team("algo=qmix", "algo.network.groups=[[0],[1,2]]"),
    team("algo=qmix", "algo.loss.trace=0.6"),
    team("algo=vdn", "algo.loss.trace=0.6", "algo.loss.corrected=true"),
    team("algo=qmix", "algo.reward_norm=standardize"),
    team("algo=qmix", "algo.network.normalize_obs=true"),
    team("algo=qmix", "algo/optimizer=adam"),
    *(single(f"algo={name}", "algo/network=mlp") for name in SINGLE_METHODS),
    team("algo=drqn", spec=SINGLE),
    team("algo=r2d2", spec=SINGLE),
    team("algo=r2d2", "algo/network=lstm", spec=SINGLE),
    single("algo=rainbow", "algo/network=conv", "algo.network.filters=[[8,3,1]]", spec=PIXELS),
    single("algo=dqn", "algo/network=mlp", "algo.lr_factors=[[0,1],[10,0.1]]"),
)
TIMED = {
    "DQN, 2 × 64 units, batch 64": Case(("algo=dqn", "algo/network=mlp"), SINGLE, 1, 64),
    "DQN, 2 × 512 units, batch 256": Case(
        ("algo=dqn", "algo/network=mlp", "algo.network.hidden_sizes=[512,512]"), SINGLE, 1, 256
    ),
    "Rainbow, 2 × 64 units, batch 64": Case(("algo=rainbow", "algo/network=mlp"), SINGLE, 3, 64),
    "IQN, 2 × 64 units, batch 64": Case(("algo=iqn", "algo/network=mlp"), SINGLE, 1, 64),
    "DQN on Atari, batch 32": Case(("algo=dqn", "algo/network=conv"), ATARI, 1, 32),
    "Rainbow on Atari, batch 32": Case(("algo=rainbow", "algo/network=conv"), ATARI, 3, 32),
    "R2D2 (LSTM), T = 60, batch 32": Case(("algo=r2d2", "algo/network=lstm"), SINGLE, 60, 32),
    "QMIX on 3m, T = 60": Case(("algo=qmix",), MAP_3M, 64, 32),
    "QMIX on 3s5z, T = 120": Case(("algo=qmix",), MAP_3S5Z, 120, 32),
    "QMIX (LSTM) on 3m, T = 60": Case(("algo=qmix", "algo/network=lstm"), MAP_3M, 64, 32),
    "QMIX, λ = 0.6, on 3m, T = 60": Case(("algo=qmix", "algo.loss.trace=0.6"), MAP_3M, 64, 32),
    "QPLEX on 3s5z, T = 120": Case(("algo=qplex",), MAP_3S5Z, 120, 32),
}


def random_batch(case: Case, seed: int) -> Batch:
    """A batch on the CPU; windows of a team end at different steps."""
    rng, spec = np.random.default_rng(seed), case.spec
    T, B, N = case.n_steps, case.n_windows, spec.n_agents
    ends = (
        np.where(rng.random(B) < 0.7, rng.integers(T // 2 + 1, T + 1, B), T) if T > 3 else [T] * B
    )
    last = np.zeros((T + 1, B), np.bool_)
    last[ends, np.arange(B)] = T > 3
    mask = np.arange(T)[:, None] < ends
    obs = rng.standard_normal((T + 1, B, N, *spec.obs_shape))
    if spec.obs_dtype == "uint8":
        obs = rng.integers(0, 256, obs.shape)
    action = rng.integers(0, spec.n_actions, (T, B, N))
    avail = rng.random((T + 1, B, N, spec.n_actions)) < 0.7
    avail[..., 0] = True
    arrays = {
        "obs": obs.astype(np.float32),
        "avail_actions": avail,
        "state": rng.standard_normal((T + 1, B, spec.state_dim)).astype(np.float32),
        "last_action": np.concatenate([np.full((1, B, N), -1), action]),
        "last": last,
        "action": action,
        "reward": rng.standard_normal((T, B, spec.n_rewards)).astype(np.float32),
        "terminated": rng.random((T, B)) < 0.1,
        "mask": mask,
        "weight": rng.random(B).astype(np.float32) + 0.5,
        "index": np.arange(B),
    }
    tensors: Any = {name: torch.from_numpy(np.asarray(x)) for name, x in arrays.items()}
    recurrent = "algo=r2d2" in case.overrides or "algo=drqn" in case.overrides
    more: Any = {"burn_in": 2, "mask_end": T, "eta": 0.9} if recurrent else {"burn_in": 0}
    if T <= 3:
        more |= {"mask_end": 1, "whole": True}
    return Batch(**tensors, **more)


def on_gpu(batch: Batch) -> Batch:
    tensors: Any = {
        f.name: x.cuda()
        for f in fields(Batch)
        if isinstance(x := getattr(batch, f.name), torch.Tensor)
    }
    return replace(batch, **tensors)


def learner_of(case: Case, device: str, kernels: str) -> Any:
    torch.manual_seed(0)
    overrides = [*case.overrides, f"hardware.device={device}", f"hardware.kernels={kernels}"]
    return rltrain.make_learner([*overrides, "hardware.threads=1"], case.spec)


class Trained(NamedTuple):
    """The first gradient and the last weights of some updates."""

    gradient: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, case: Case, device: str, kernels: str, n_updates: int = 6) -> Trained:
        """The case's learner after ``n_updates`` updates.

        Raises:
            RuntimeError: nothing was captured although graphs are required.
        """
        learner, gradients = learner_of(case, device, kernels), []
        for i in range(n_updates):
            batch = random_batch(case, i)
            learner.update(batch if device == "cpu" else on_gpu(batch), Clock(i, 0, i))
            gradients.append(learner.gradient_step.flat.gradient.cpu().clone())
        if kernels == "compiled" and not learner.step.func.captures._graphs:
            raise RuntimeError("nothing was captured")
        return cls(gradients[0], learner.gradient_step.weights.cpu().clone())


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference, relative to the largest number."""
    return float((a - b).abs().max() / b.abs().max())


def compared(case: Case) -> dict[str, Any]:
    """One method on the CPU, on the GPU and in CUDA graphs, the last two twice."""
    cpu, eager, graph = (
        Trained.of(case, *where)
        for where in (("cpu", "torch"), ("cuda", "torch"), ("cuda", "compiled"))
    )
    again = Trained.of(case, "cuda", "torch"), Trained.of(case, "cuda", "compiled")
    return {
        "gradient": distance(eager.gradient, cpu.gradient),  # of the GPU from the CPU's
        "weights": distance(eager.weights, cpu.weights),
        "graph_gradient": distance(graph.gradient, eager.gradient),
        "graph_weights": distance(graph.weights, eager.weights),
        "again": bool((again[0].weights == eager.weights).all()),
        "graph_again": bool((again[1].weights == graph.weights).all()),
    }


def methods() -> Iterator[dict[str, Any]]:
    """Every method: ``compared``."""
    for case in METHODS:
        row: dict[str, Any] = {"method": " ".join(case.overrides)}
        try:
            row |= compared(case)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:300]
            frames = traceback.extract_tb(error.__traceback__)
            row["where"] = [f"{f.filename[-40:]}:{f.lineno} {f.line}" for f in frames][-3:]
        yield row


def median_time(call: Callable[[], object], n: int, repeats: int = 5) -> float:
    """Microseconds of a call, the median over ``repeats`` series of ``n``."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(n):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / n)
    return 1e6 * statistics.median(times)


def timed(case: Case, kernels: str, deterministic: bool = True) -> float:
    """Microseconds of an update on a batch that lies on the device."""
    batch, learner = on_gpu(random_batch(case, 0)), learner_of(case, "cuda", kernels)
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.backends.cudnn.allow_tf32 = not deterministic  # PyTorch's default

    def update() -> None:
        learner.update(batch, Clock())

    for _ in range(3):
        update()
    n = max(2, int(1.5e5 / median_time(update, 1, 3)))
    return median_time(update, min(n, 100), 3)


def updates() -> Iterator[dict[str, Any]]:
    """Microseconds of a gradient step; ``any_order``: without the guarantee of the same bits."""
    for name, case in TIMED.items():
        row: dict[str, Any] = {"case": name}
        try:
            row["eager"], row["graph"] = timed(case, "torch"), timed(case, "auto")
            row["any_order"] = timed(case, "auto", deterministic=False)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        yield {k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()}


def cpu() -> Iterator[dict[str, Any]]:
    """Microseconds of CPU time of a gradient step in compiled code, on one thread."""
    for name, case in TIMED.items():
        batch, learner = random_batch(case, 0), learner_of(case, "cpu", "auto")
        times = []
        for _ in range(9):
            begun = time.process_time()
            learner.update(batch, Clock())
            times.append(time.process_time() - begun)
        yield {"case": name, "cpu": round(1e6 * statistics.median(times[2:]), 1)}


def seeds(n: int = 10, env_steps: int = 500_000) -> Iterator[dict[str, Any]]:
    """Env steps a second of ``n`` seeds together, from the first row of metrics to the last: by one
    process, by a process each, and of one seed alone.
    """
    words = f"experiment=minatar/pqn total_env_steps={env_steps} test.interval={env_steps}".split()
    words += [f"save.interval={env_steps}", "logger=[]", "logger.console=false"]
    sweep = ["-m", f"seed=range({n})", "hydra.sweep.dir=sweep"]
    for how, given in {
        "one process": [*sweep, "sweep.batch_seeds=true"],
        "a process each": [*sweep, f"sweep.jobs={n}"],
        "one seed": ["hydra.run.dir=sweep/0"],
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "rltrain", *given, *words]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            paths = Path(folder).glob("sweep/*/metrics.jsonl")
            runs = [[*map(json.loads, path.read_text().splitlines())] for path in paths]
        rows = [[row for row in run if "train/return_mean" in row] for run in runs]
        steps = sum(run[-1]["env_steps"] - run[0]["env_steps"] for run in rows)
        seconds = max(run[-1]["seconds"] - run[0]["seconds"] for run in rows)
        yield {"case": how, "env_steps_per_s": round(steps / seconds)}


def main(arguments: Sequence[str]) -> None:
    commands = {"methods": methods, "updates": updates, "cpu": cpu, "seeds": seeds}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=commands)
    what = parser.parse_args(arguments).what
    machine = rltrain.hardware.device.machine()
    print(json.dumps({name: machine[name] for name in ("gpu", "cpu", "torch")}))
    for row in commands[what]():
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
