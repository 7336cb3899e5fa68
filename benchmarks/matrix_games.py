"""Which methods find the optimum of matrix games, and the values they converge to.

    python -m benchmarks.matrix_games two_step qtran --algos vdn qtran --seeds 1-5
    python -m benchmarks.matrix_games qtran --algos qplex --batch 32 --lr 1e-3 --updates 8000
    python -m benchmarks.matrix_games wqmix --algos cw_qmix --set algo.loss.alpha=0.01

Uniform data: every batch has each sequence of joint actions once, as ε = 1 gives them in the limit,
or with --batch so many of them, drawn at random. All parts are built from the settings of the
command, with feed-forward agents; QPLEX has the mixer of its authors' matrix games.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import cast

import numpy as np
import torch

from benchmarks.runs import seeds
from rltrain.algo.learner import Learner
from rltrain.algo.loss.td import taken_value
from rltrain.api import settings_from
from rltrain.assemble.build_learner import build_learner
from rltrain.env.games.lockstep import GameEnv
from rltrain.env.games.matrix import PAYOFFS, MatrixGames, TwoStepGames
from rltrain.types import Batch, Clock

ALGOS = ("iql", "vdn", "qmix", "cw_qmix", "ow_qmix", "qtran", "qplex")
UPDATES = 1000
LEARNING_RATE = "1e-2"
SETTINGS = (
    "algo/network=mlp algo/optimizer=adam algo.target_update.episodes=null "
    "algo.target_update.updates=100"
)
OF_METHODS = {"qplex": "algo.mixer.kernels=10 algo.mixer.kernel_layers=3"}


def make_env(game: str, n_envs: int) -> GameEnv:
    if game == "two_step":
        return TwoStepGames(n_envs=n_envs)
    return MatrixGames(game=game, length=1, n_envs=n_envs)


def overrides(game: str, algo: str, seed: int, lr: str, more: Sequence[str] = ()) -> list[str]:
    """The settings of a run, to type after rltrain as well."""
    env = "env=two_step" if game == "two_step" else f"env=matrix env.game={game}"
    settings = f"{SETTINGS} algo.optimizer.lr={lr} {OF_METHODS.get(algo, '')}"
    return [*f"algo={algo} {env} {settings} seed={seed}".split(), *more]


def every_episode(game: str) -> Batch:
    """One window for each sequence of joint actions, in the order of ``itertools.product``."""
    spec = make_env(game, 1).spec
    n_steps = cast(int, spec.max_steps)
    joint = list(product(range(spec.n_actions), repeat=2))
    action = np.array(list(product(joint, repeat=n_steps))).swapaxes(0, 1)  # [T, B, N]
    env = make_env(game, action.shape[1])
    env.reset(lambda env, episode: 0)
    seen, paid = [(env.obs.copy(), env.state.copy(), env.last.copy())], []
    for each in action:
        paid.append(env.step(each))
        seen.append((env.obs.copy(), env.state.copy(), env.last.copy()))
    obs, state, last = (torch.from_numpy(np.stack(x)) for x in zip(*seen, strict=True))
    reward, terminated = (torch.from_numpy(np.stack(x)) for x in zip(*paid, strict=True))
    taken = torch.from_numpy(action)
    n = action.shape[1]
    return Batch(
        obs=obs,
        avail_actions=torch.ones(n_steps + 1, n, 2, spec.n_actions, dtype=torch.bool),
        state=state,
        last_action=torch.cat([torch.full((1, n, 2), -1), taken]),
        last=last,
        action=taken,
        reward=reward,
        terminated=terminated,
        mask=torch.ones(n_steps, n, dtype=torch.bool),
        weight=torch.ones(n),
        index=torch.arange(n),
    )


def learned(
    game: str,
    algo: str,
    seed: int,
    updates: int,
    batch_size: int | None = None,
    lr: str = LEARNING_RATE,
    more: Sequence[str] = (),
) -> tuple[Learner, Batch]:
    """A learner after so many gradient steps, and the batch of all episodes.

    Args:
        batch_size: episodes drawn at random for every step; None = each of them once.
        more: further overrides.
    """
    torch.set_num_threads(1)
    batch, rng = every_episode(game), np.random.default_rng(seed)
    settings = settings_from(overrides(game, algo, seed, lr, more))
    learner = build_learner(settings, make_env(game, 1).spec, torch.device("cpu"))
    for done in range(updates):
        drawn = batch
        if batch_size is not None:
            drawn = episodes(
                batch, torch.from_numpy(rng.integers(len(batch.index), size=batch_size))
            )
        learner.update(drawn, Clock(updates=done))
    return learner, batch


def episodes(batch: Batch, numbers: torch.Tensor) -> Batch:
    """These windows of a batch."""
    of_steps = ("obs", "avail_actions", "state", "last_action", "last", "action", "reward")
    of_steps += ("terminated", "mask")
    fields = {name: getattr(batch, name)[:, numbers] for name in of_steps}
    return replace(batch, **fields, weight=batch.weight[numbers], index=torch.arange(len(numbers)))


def greedy_return(learner: Learner, game: str) -> float:
    """The return of one episode of greedy actions."""
    env, total = make_env(game, 1), 0.0
    env.reset(lambda env, episode: 0)
    agents = learner.online.agents
    last_action, hidden = torch.full((1, 2), -1), torch.zeros(1, 2, agents.hidden_dim)
    while not env.last.all():
        with torch.no_grad():
            q, hidden = agents.step(torch.from_numpy(env.obs), last_action, hidden)
        last_action = q.argmax(-1)
        reward, _ = env.step(last_action.numpy())
        total += float(reward.sum())
    return total


@torch.no_grad()
def tables(learner: Learner, batch: Batch, game: str) -> np.ndarray:
    """[n, A, A] Q_tot of every joint action: in each of the states of the two-step game, or in the
    only one; for IQL the sum of both agents' values, as for VDN.
    """
    q = learner.online.agents.unroll(batch).q
    value = taken_value(learner.online, q[:-1], batch, batch.state[:-1]).sum(-1)  # [T, B]
    if game != "two_step":
        size = len(PAYOFFS[game])
        return value.reshape(1, size, size).numpy()
    first, second = value.reshape(2, 2, 2, 2, 2)
    return torch.stack([first[:, :, 0, 0], second[0, 0], second[1, 0]]).numpy()


def exact(game: str) -> np.ndarray:
    """[n, A, A] the optimal values, with the discount of the settings."""
    if game != "two_step":
        return np.array([PAYOFFS[game]], float)
    table = TwoStepGames.PAYOFF.astype(float)
    table[0] = [[0.99 * 7] * 2, [0.99 * 8] * 2]
    return table


def row(game: str, algo: str, options: argparse.Namespace) -> str:
    """A row of the table: greedy returns, how far Q_tot is from the exact values, and Q_tot."""
    returns, found = [], []
    for seed in seeds(options.seeds):
        learner, batch = learned(
            game, algo, seed, options.updates, options.batch, options.lr, options.set
        )
        returns.append(greedy_return(learner, game))
        found.append(tables(learner, batch, game))
    error = np.mean([np.abs(each - exact(game)).max() for each in found])
    shown = " ".join(
        "[" + "; ".join(" ".join(f"{x:.2f}" for x in line) for line in table) + "]"
        for table in found[0]
    )
    each = ", ".join(f"{x:g}" for x in returns)
    return f"| {game} | {algo} | {each} | {error:.2f} | `{shown}` |"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="+", choices=["two_step", *PAYOFFS])
    parser.add_argument("--algos", nargs="+", default=list(ALGOS))
    parser.add_argument("--seeds", default="1-5", help="such as 1-5")
    parser.add_argument("--updates", type=int, default=UPDATES, help="gradient steps")
    parser.add_argument("--batch", type=int, help="episodes drawn at random for every step")
    parser.add_argument("--lr", default=LEARNING_RATE, help="learning rate of Adam")
    parser.add_argument("--set", nargs="+", default=[], help="further overrides of rltrain")
    options = parser.parse_args(arguments)
    print("| game | method | greedy return of each seed | error | Q_tot, first seed |")
    print("| --- | --- | --- | --- | --- |")
    for game, algo in product(options.games, options.algos):
        print(row(game, algo, options), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
