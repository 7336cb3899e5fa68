"""Ratings of players from battles between them: Bradley-Terry strengths and Elo, with intervals;
and those of a run of self-play over training time.

N are players, P rows of results (a pairing may have several, such as one per side), R resamples. A
draw is half a point for either player. Ratings are on the scale of Elo: a difference of 400 means
that 10 points are won for 1 that is lost. Their mean is 0.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rltrain.common.checkpoint.opponent_files import RESULTS
from rltrain.common.files import get_json, whole_number
from rltrain.report.statistics import Interval, interval

SCALE = 400 / np.log(10)
"""Elo per unit of log odds."""
PRIOR = 0.5
"""Virtual wins, and as many losses, of every player against one of strength 0."""
K = 16.0
"""Elo that a battle moves at most."""
ORDERS = 50
"""Random orders of the battles that Elo is averaged over."""
RESAMPLES, ELO_RESAMPLES = 1_000, 100
MOST_INTERVALS = 500
"""Intervals of a run of self-play that are rated: time grows as their cube."""
MOST_SNAPSHOTS = 600
"""That it may have met in them: one for each, and the pool before them."""
NORMAL = 1.96
"""95% of a normal distribution are within so many standard deviations."""
MOST_BATTLES = 10**9
"""Of a pairing in a file: more of them are no counts, and of too different sizes to be solved."""
LONGEST_STEP, TOLERANCE, MOST_STEPS = 2.0, 1e-9, 50
"""Limits of Newton's method, in log odds."""


class Results(NamedTuple):
    """Battles between two players per row; all arrays are of whole numbers."""

    first: np.ndarray  # [P]
    second: np.ndarray  # [P]
    counts: np.ndarray  # [P, 3] or [R, P, 3]: wins of the first player, draws and losses


@dataclass(frozen=True)
class Ratings:
    """The result of ``rate``. Intervals have arrays of [N], and numbers for ``cyclic``."""

    bradley_terry: Interval
    elo: Interval
    cyclic: Interval | None  # share of triples in which each beats another; None: no triples
    held_back: float | None  # mean error of scores predicted from the other pairings
    held_back_noise: float | None  # the same by chance alone, if the predictions were true


def rate(results: Results, n: int, rng: np.random.Generator) -> Ratings:
    """Rate ``n`` players. Intervals are 95% percentile intervals of ``simulated`` battles, for
    ``cyclic``, which is about pairings that the strengths do not explain, of ``resampled`` ones.
    """
    drawn = simulated(results, n, RESAMPLES, rng)
    orders = rng.permuted(np.tile(np.arange(results.counts.sum()), (ORDERS, 1)), axis=1)
    some = drawn._replace(counts=drawn.counts[:ELO_RESAMPLES])
    strengths = interval(bradley_terry(results, n), bradley_terry(drawn, n))
    elos = interval(elo(results, n, orders), elo(some, n, orders))
    if n < 3:
        return Ratings(strengths, elos, None, None, None)
    again = resampled(results, RESAMPLES, rng)
    cyclic = interval(cyclic_triples(results, n), cyclic_triples(again, n))
    return Ratings(strengths, elos, cyclic, *held_back(results, n))


def simulated(results: Results, n: int, resamples: int, rng: np.random.Generator) -> Results:
    """A parametric bootstrap, [R, P, 3]: as many battles in each row, between players of the
    strengths that were found (Efron and Tibshirani, 1993, An Introduction to the Bootstrap,
    section 6.5). These are finite, so that battles that were all won have a spread, which drawing
    from them would not give. Draws have their share of all battles and of virtual ones.
    """
    strength, total = bradley_terry(results, n) / SCALE, results.counts.sum(-1)
    p = expected(strength[results.first] - strength[results.second])
    share = results.counts[:, 1].sum() / (total.sum() + 2 * PRIOR)
    draw = np.minimum(share, 2 * np.minimum(p, 1 - p))
    outcomes = np.stack([p - draw / 2, draw, 1 - p - draw / 2], -1)
    return results._replace(counts=rng.multinomial(total, outcomes, size=(resamples, len(total))))


def resampled(results: Results, resamples: int, rng: np.random.Generator) -> Results:
    """A bootstrap within rows, [R, P, 3], each of which keeps its number of battles. Half a win and
    half a loss are added to a row before it is drawn from, since it may have no spread.
    """
    seen = results.counts + np.array([PRIOR, 0, PRIOR])
    p, total = seen / seen.sum(-1, keepdims=True), results.counts.sum(-1)
    return results._replace(counts=rng.multinomial(total, p, size=(resamples, len(p))))


def points(results: Results, n: int) -> np.ndarray:
    """[..., N, N]: points of player i in all battles against j."""
    won = results.counts @ np.array([1.0, 0.5, 0.0])
    lost = results.counts.sum(-1) - won
    out = np.zeros((*won.shape[:-1], n, n))
    for row, (i, j) in enumerate(zip(results.first, results.second, strict=True)):
        out[..., i, j] += won[..., row]
        out[..., j, i] += lost[..., row]
    return out


def bradley_terry(results: Results, n: int) -> np.ndarray:
    """Bradley-Terry strengths [..., N].

    They maximize the likelihood of Bradley and Terry (1952, Biometrika 39, p. 324), in which the
    odds of i against j are ``exp(s_i - s_j)``, and of the virtual battles of ``PRIOR``, which keep
    the strength of an undefeated player finite (Hunter, 2004, Ann. Stat. 32, p. 384, on when it is
    not without them). The logarithm is strictly concave: Newton's method finds the one maximum.
    """
    return fit(points(results, n)) * SCALE


def fit(scores: np.ndarray) -> np.ndarray:
    """Strengths [..., N] in log odds with mean 0, from points [..., N, N] of i against j."""
    battles = scores + np.swapaxes(scores, -1, -2)
    won = scores.sum(-1) + PRIOR
    strength = np.zeros(won.shape)
    for _ in range(MOST_STEPS):
        p, information = curvature(strength, battles)
        gradient = won - (battles * p).sum(-1) - 2 * PRIOR * expected(strength)
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        largest = np.abs(step).max(-1, keepdims=True)
        strength += step * np.minimum(1.0, LONGEST_STEP / np.maximum(largest, TOLERANCE))
        if largest.max() < TOLERANCE:
            break
    return strength - strength.mean(-1, keepdims=True)


def curvature(strength: np.ndarray, battles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected points of a battle [..., N, N], and the information: the negative second derivatives
    of the log likelihood by the strengths.
    """
    p = expected(strength[..., :, None] - strength[..., None, :])
    p_prior = expected(strength)
    weight = battles * p * (1 - p)
    diagonal = weight.sum(-1) + 2 * PRIOR * p_prior * (1 - p_prior)
    return p, diagonal[..., None] * np.eye(strength.shape[-1]) - weight


def expected(difference: np.ndarray) -> np.ndarray:
    """Expected points of a battle by the difference in log odds."""
    return 0.5 * (1 + np.tanh(difference / 2))


def elo(results: Results, n: int, orders: np.ndarray) -> np.ndarray:
    """Elo ratings [..., N] after all battles in sequence.

    Every battle moves both ratings by ``K (points - expected points)`` (Elo, 1978, The Rating of
    Chessplayers, section 1.6). Players start at 0, and ratings that are far from it are not reached
    in few battles: prefer ``bradley_terry``. Returns the mean over ``orders`` [O, battles],
    permutations of all battles.
    """
    counts, n_rows = results.counts, len(results.first)
    total = counts.reshape(-1, n_rows, 3)[0].sum(-1)  # the same in all resamples
    row = np.repeat(np.arange(n_rows), total)
    place = np.concatenate([np.arange(size) for size in total])
    ends = np.cumsum(counts, -1)[..., row, :]  # [..., battles, 3]; equal battles are neighbors
    score = 0.5 * ((place < ends[..., 0]).astype(float) + (place < ends[..., 1]))
    first, second, at = results.first[row], results.second[row], np.arange(len(orders))
    rating = np.zeros((*counts.shape[:-2], len(orders), n))
    for battle in orders.T:
        i, j = first[battle], second[battle]
        p = expected((rating[..., at, i] - rating[..., at, j]) / SCALE)
        change = K * (score[..., battle] - p)
        rating[..., at, i] += change
        rating[..., at, j] -= change
    return rating.mean(-2)


def cyclic_triples(results: Results, n: int) -> np.ndarray:
    """Share [...] of triples of players in which i beats j, j beats k and k beats i (a Condorcet
    cycle); who has more than half of the points of a pairing beats.
    """
    scores = points(results, n)
    beats = (scores > np.swapaxes(scores, -1, -2)).astype(float)
    cycles = np.trace(beats @ beats @ beats, axis1=-2, axis2=-1) / 3
    return cycles / (n * (n - 1) * (n - 2) / 6)


def held_back(results: Results, n: int) -> tuple[float, float]:
    """The mean absolute error of the score of a pairing (points per battle) that Bradley-Terry
    strengths predict from the battles of all other pairings, and what it would be by chance if the
    predicted scores were the true ones (and no battle was drawn).
    """
    scores = points(results, n)
    battles = scores + scores.T
    i, j = np.nonzero(np.triu(battles))
    kept = np.repeat(scores[None], len(i), axis=0)
    pairing = np.arange(len(i))
    kept[pairing, i, j] = kept[pairing, j, i] = 0
    strength = fit(kept)
    p = expected(strength[pairing, i] - strength[pairing, j])
    noise = np.sqrt(2 / np.pi * p * (1 - p) / battles[i, j])
    return float(np.abs(scores[i, j] / battles[i, j] - p).mean()), float(noise.mean())


def battles(path: Path) -> np.ndarray:
    """Counts of a run of self-play, [P, 5]: env steps of an interval and of a snapshot, wins, draws
    and losses. Of long runs, those of the newest ``MOST_INTERVALS``.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no such counts, or too many snapshots.
    """
    found = get_json(path) if path.exists() else {}
    with suppress(AttributeError, TypeError):
        rows: list[tuple[Any, ...]] = [
            (whole_number(now), whole_number(snapshot), *counts)
            for now, each in found.items()
            for snapshot, counts in each.items()
        ]
        whole = all(len(row) == 5 and {*map(type, row)} == {int} for row in rows)
        if whole and all(0 <= x <= MOST_BATTLES for row in rows for x in row[2:]):
            table = np.array([row for row in rows if sum(row[2:])], np.int64).reshape(-1, 5)
            table = table[np.isin(table[:, 0], np.unique(table[:, 0])[-MOST_INTERVALS:])]
            if len(np.unique(table[:, 1])) <= MOST_SNAPSHOTS:
                return table
            raise ValueError(f"more than {MOST_SNAPSHOTS:,} snapshots")
    raise ValueError("it does not count battles")


@cache
def ratings_over_time(run_dir: Path) -> tuple[np.ndarray, Interval] | None:
    """Env steps [K] of snapshots, and Bradley-Terry ratings [K] of the agents while each was the
    newest one; the snapshot of the first battles has 0. None without such ``battles``.

    Agents of an interval and snapshots are different players, since agents explore. Intervals (95%)
    are those of the normal distribution whose inverse covariance is the information.
    """
    try:
        table = battles(run_dir / RESULTS)
    except (OSError, ValueError):
        return None
    if not len(table):
        return None
    steps, first = np.unique(table[:, 0], return_inverse=True)
    snapshots, second = np.unique(table[:, 1], return_inverse=True)
    n = len(steps)
    scores = points(Results(first, second + n, table[:, 2:]), n + len(snapshots))
    strength = fit(scores)
    covariance = np.linalg.inv(curvature(strength, scores + scores.T)[1])
    variance = covariance.diagonal()[:n] + covariance[n, n] - 2 * covariance[:n, n]
    rating, spread = (strength[:n] - strength[n]) * SCALE, NORMAL * np.sqrt(variance) * SCALE
    return steps, Interval(rating, rating - spread, rating + spread)
