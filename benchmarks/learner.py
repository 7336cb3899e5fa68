"""Milliseconds per QMIX update, ours against a plain one and against this machine's matrix rate:
``python -m benchmarks.learner``.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.reference_learner import ReferenceLearner
from rltrain.algo import kernels
from rltrain.algo.learner import Learner
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.optimizer import rmsprop
from rltrain.algo.target_update import TargetUpdate
from rltrain.hardware.device import set_allocator_policy
from rltrain.interfaces import Loss
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Model,
)

SHAPES = {
    "3m": (EnvSpec(n_agents=3, n_actions=9, obs_shape=(30,), state_dim=48), 60),
    "8m": (EnvSpec(n_agents=8, n_actions=14, obs_shape=(80,), state_dim=168), 120),
    "27m_vs_30m": (EnvSpec(n_agents=27, n_actions=36, obs_shape=(285,), state_dim=1170), 180),
}
N_EPISODES = 32


def make_batch(spec: EnvSpec, lengths: np.ndarray, seed: int = 0) -> Batch:
    """Random whole episodes of these lengths, longest first, as the episode replay gives them."""
    rng = np.random.default_rng(seed)
    lengths = np.sort(lengths)[::-1].copy()
    n_steps, n_windows = int(lengths[0]), len(lengths)
    step = np.arange(n_steps + 1)[:, None]
    real, mask = step <= lengths, step[:-1] < lengths  # [T+1, B], [T, B]
    shape = (n_steps + 1, n_windows, spec.n_agents)
    obs = rng.standard_normal((*shape, *spec.obs_shape), np.float32) * real[..., None, None]
    state = rng.standard_normal((*shape[:2], spec.state_dim), np.float32) * real[..., None]
    avail_actions = rng.random((*shape, spec.n_actions)) < 0.7
    avail_actions[..., 0] = True
    action = rng.integers(0, spec.n_actions, (n_steps, *shape[1:])) * mask[..., None]
    last_action = np.concatenate([np.full((1, *shape[1:]), -1), action])
    reward = rng.standard_normal((n_steps, n_windows, 1), np.float32) * mask[..., None]
    return Batch(
        obs=torch.from_numpy(obs),
        avail_actions=torch.from_numpy(avail_actions),
        state=torch.from_numpy(state),
        last_action=torch.from_numpy(last_action),
        last=torch.from_numpy(step >= lengths),
        action=torch.from_numpy(action),
        reward=torch.from_numpy(reward),
        terminated=torch.from_numpy(step[:-1] == lengths - 1),
        mask=torch.from_numpy(mask),
        weight=torch.ones(n_windows),
        index=torch.arange(n_windows),
    )


def make_learner(spec: EnvSpec, target_cache: int | None = None) -> Learner:
    model = Model(
        GRUAgents(spec=spec, hidden_dim=64, last_action=True, agent_id=True),
        QMix(spec=spec, embed_dim=32, hypernet_layers=2, hypernet_dim=64),
    )
    kernels.compile_agents(model.agents)
    loss = cast(Loss, TDLoss(gamma=0.99, double=True, n_step=1))
    return Learner(
        spec=spec,
        model=model,
        loss=kernels.compile_loss(loss, model, target_cache=target_cache),
        optimizer=partial(rmsprop, lr=5e-4, alpha=0.99, eps=1e-5),
        max_grad_norm=10.0,
        target_update=TargetUpdate(episodes=200, env_steps=None, updates=None, tau=1.0),
    )


def arithmetic(spec: EnvSpec, lengths: np.ndarray) -> float:
    """Floating-point operations of an update with one-hot inputs: two passes forward, one back."""
    n_inputs = spec.obs_shape[0] + spec.n_actions + spec.n_agents
    first, rest = 64 * n_inputs, 64 * (6 * 64 + spec.n_actions)
    of_agents = 2 * (first + rest) + first + 2 * rest  # inputs have no gradient
    outer, inner = 192 * spec.state_dim, 64 * 32 * (spec.n_agents + 1) + 32
    of_mixer = 2 * (outer + inner) + outer + 2 * inner
    return 2.0 * lengths.sum() * (spec.n_agents * of_agents + of_mixer)


def matrix_rate(clock: Callable[[], float], seconds: float = 2.0) -> float:
    """Floating-point operations per second of PyTorch's matrix products, at the best size."""
    best, end = 0.0, time.perf_counter() + seconds
    sizes = [(5856, 64, 192), (5760, 1170, 192), (1024, 1024, 1024)]
    matrices = [(torch.randn(r, k), torch.randn(m, k).t(), 2 * r * k * m) for r, k, m in sizes]
    while time.perf_counter() < end:
        for left, right, operations in matrices:
            start = clock()
            torch.mm(left, right)
            best = max(best, operations / (clock() - start))
    return best


def mixed_lengths(n_steps: int) -> np.ndarray:
    """Episode lengths between 30 % and 100 % of the limit, as a half-trained team has them."""
    share = np.random.default_rng(1).triangular(0.3, 0.5, 1.0, N_EPISODES)
    return np.ceil(share * n_steps).astype(int)


def interleaved(
    functions: Sequence[Callable[[], object]], seconds: float, clock: Callable[[], float]
) -> list[float]:
    """Median milliseconds of functions called in turn for about ``seconds``."""
    taken: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[0]) < 3:
        for function, times in zip(functions, taken, strict=True):
            start = clock()
            function()
            times.append(1e3 * (clock() - start))
    return [statistics.median(times) for times in taken]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2, help="threads of both learners")
    parser.add_argument("--seconds", type=float, default=10, help="per row of the table")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    set_allocator_policy()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    kind_of_time = "CPU time" if options.threads == 1 else "wall-clock time"
    rate = matrix_rate(clock)
    table = Table(
        title=f"QMIX update, {N_EPISODES} episodes, {options.threads} threads, {kind_of_time}; "
        f"matrix products of PyTorch: {rate / 1e9:.0f} GFLOP/s"
    )
    for column in (
        "shape",
        "episodes",
        "ours ms",
        "of the rate",
        "kept targets ms",
        "plain ms",
        "",
    ):
        table.add_column(column, justify="left" if column in ("shape", "episodes") else "right")
    for name in options.shapes:
        spec, n_steps = SHAPES[name]
        full = np.full(N_EPISODES, n_steps)
        for kind, lengths in (("full length", full), ("mixed lengths", mixed_lengths(n_steps))):
            batch = make_batch(spec, lengths)
            learner, keeping = make_learner(spec), make_learner(spec, target_cache=10**9)
            ours_ms, kept_ms, plain_ms = interleaved(
                [
                    partial(learner.update, batch, Clock()),
                    partial(keeping.update, batch, Clock()),
                    partial(ReferenceLearner(spec).update, batch),
                ],
                options.seconds,
                clock,
            )
            table.add_row(
                name,
                f"{kind} (mean {lengths.mean():.0f} of {lengths.max()})",
                f"{ours_ms:.1f}",
                f"{arithmetic(spec, lengths) / rate / ours_ms * 1e5:.0f} %",
                f"{kept_ms:.1f}",
                f"{plain_ms:.1f}",
                f"{plain_ms / ours_ms:.2f} ×",
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
