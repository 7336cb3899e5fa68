"""Ratings over training time of a run of self-play, from its battles against its snapshots."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from rltrain.common.checkpoint.opponent_files import RESULTS
from rltrain.common.files import json_object
from rltrain.report.ratings import CONFIDENCE, Results, bradley_terry, resampled
from rltrain.report.statistics import Interval, interval

RESAMPLES = 200


@cache
def ratings_over_time(run_dir: Path) -> tuple[np.ndarray, Interval] | None:
    """Env steps [K] of snapshots, and Bradley-Terry ratings [K] of the agents while each was the
    newest one; the snapshot of the first battles has 0. None without such battles.

    Agents of an interval and snapshots are different players, since agents explore.
    """
    try:
        rows: list[list[int]] = [
            [int(now), int(snapshot), *map(int, counts)]
            for now, each in json_object(run_dir / RESULTS).items()
            for snapshot, counts in each.items()
        ]
        played = [row for row in rows if min(row) >= 0 and sum(row[2:]) > 0]
        now, snapshot, wins, draws, losses = np.array(played, np.int64).T
    except (AttributeError, TypeError, ValueError):
        return None
    steps, first = np.unique(now, return_inverse=True)
    snapshots, second = np.unique(snapshot, return_inverse=True)
    battles, n = Results(first, second + len(steps), wins, draws, losses), len(steps)
    drawn = resampled(battles, RESAMPLES, np.random.default_rng(0))
    rating, samples = (
        found[..., :n] - found[..., n : n + 1]
        for found in (
            bradley_terry(battles, n + len(snapshots)),
            bradley_terry(battles, n + len(snapshots), drawn),
        )
    )
    return steps, Interval(rating, *interval(samples, CONFIDENCE))
