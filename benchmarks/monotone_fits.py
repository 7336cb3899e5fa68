"""The best fit of a monotonic mixer to matrix games.

    python -m benchmarks.monotone_fits                   all games of 3 x 3 joint actions
    python -m benchmarks.monotone_fits wqmix --alphas 1 0.1

Uniform data. α weighs the cells above the payoff: 1 is the loss of QMIX, less that of OW-QMIX. A
table is monotone if both agents can order their actions so that it rises along rows and columns;
the best one for each pair of orders is a convex problem.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
from scipy.optimize import LinearConstraint, minimize

from rltrain.env.games.matrix import PAYOFFS


def best_fit(payoff: np.ndarray, alpha: float = 1.0) -> tuple[float, np.ndarray]:
    """The smallest weighted sum of squared errors, and the monotone table [A, A] that has it."""
    n = len(payoff)
    found = []
    for rows, columns in product(permutations(range(n)), repeat=2):
        error, rising = rising_fit(payoff[np.ix_(rows, columns)], alpha)
        table = np.empty((n, n))
        table[np.ix_(rows, columns)] = rising
        found.append((round(error, 6), table))
    return min(found, key=lambda each: each[0])


def rising_fit(payoff: np.ndarray, alpha: float) -> tuple[float, np.ndarray]:
    """The same among tables that rise along rows and columns as they are."""
    cells = np.arange(payoff.size).reshape(payoff.shape)
    steps = [(cells[1:], cells[:-1]), (cells[:, 1:], cells[:, :-1])]
    pairs = [pair for high, low in steps for pair in zip(high.flat, low.flat, strict=True)]
    rises = np.zeros((len(pairs), payoff.size))
    for k, (high, low) in enumerate(pairs):
        rises[k, high], rises[k, low] = 1, -1

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        error = x - payoff.ravel()
        weighted = np.where(error > 0, alpha, 1.0) * error
        return float(weighted @ error), 2 * weighted

    found = minimize(
        loss,
        np.full(payoff.size, payoff.mean()),
        jac=True,
        method="SLSQP",
        constraints=LinearConstraint(rises, 0, np.inf),
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return float(found.fun), found.x.reshape(payoff.shape)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="*", help="all if none is named")
    parser.add_argument("--alphas", nargs="+", type=float, default=[1, 0.1, 0.01])
    options = parser.parse_args(arguments)
    print("| game | α | best monotone table | payoffs of its greatest cells |")
    print("| --- | --- | --- | --- |")
    for game, alpha in product(options.games or PAYOFFS, options.alphas):
        payoff = np.array(PAYOFFS[game], float)
        _, table = best_fit(payoff, alpha)
        shown = "; ".join(" ".join(f"{x:.2f}" for x in row + 0.0) for row in table)
        greatest = payoff[table > table.max() - 0.01]
        each = ", ".join(f"{x:g}" for x in sorted(greatest)[::-1])
        print(f"| {game} | {alpha:g} | `[{shown}]` | {each} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
