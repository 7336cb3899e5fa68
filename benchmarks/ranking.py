"""Rank IQL, VDN and QMIX on the SMAC maps for which all three have kept runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from benchmarks.kept import kept
from benchmarks.tasks import TASKS
from rltrain.logger.curve import series
from rltrain.report.run_data import Curve
from rltrain.report.statistics import probability_of_improvement, resampled_runs

ORDER = ("iql", "vdn", "qmix")
QMIX = {"2s3z": "builtin-2s3z", "8m": "builtin-8m"}
"""QMIX runs of other tables with the same settings as the SMAC table."""
METRIC = "test/win_rate"
LAST = 10
RESAMPLES = 10_000


def scores_by_map() -> dict[str, dict[str, np.ndarray]]:
    """Scores of all seeds by map and method: means of the last ten tests up to the end of the map's
    shortest run.
    """
    out: dict[str, dict[str, np.ndarray]] = {}
    for map_name in (name.removeprefix("vdn-") for name in TASKS["smac"] if "vdn-" in name):
        runs = {method: curves(f"{method}-{map_name}") for method in ORDER}
        runs["qmix"] += curves(QMIX.get(map_name, ""))
        if all(runs.values()):
            end = min(curve.end for each in runs.values() for curve in each)
            out[map_name] = {
                method: np.array([curve.final(end, LAST) for curve in each])
                for method, each in runs.items()
            }
    return out


def curves(name: str) -> list[Curve]:
    """Win rates of the kept runs of a task."""
    points = (series(lines[1:], METRIC) for lines in kept(name, METRIC).values())
    return [Curve(np.array(x, float), np.array(y, float)) for x, y in points]


def lines_of(scores: Mapping[str, Mapping[str, np.ndarray]]) -> Iterator[str]:
    """A Markdown table, and the probabilities with their intervals."""
    if not scores:
        yield "No map has kept runs of all three methods."
        return
    yield f"| map | {' | '.join(ORDER)} |"
    yield f"|{' --- |' * (1 + len(ORDER))}"
    for map_name, each in scores.items():
        cells = [", ".join(f"{100 * x:.0f}" for x in each[method]) for method in ORDER]
        yield f"| {map_name} | {' | '.join(cells)} |"
    by_method = {method: [each[method] for each in scores.values()] for method in ORDER}
    rng = np.random.default_rng(0)
    drawn = {m: resampled_runs(each, RESAMPLES, rng) for m, each in by_method.items()}
    pooled = []
    for method in ORDER:
        value = float(np.mean([scores.mean() for scores in by_method[method]]))
        low, high = np.percentile(means_over_maps(by_method[method], drawn[method]), (2.5, 97.5))
        pooled.append(f"{method} {100 * value:.0f} ({100 * low:.0f} … {100 * high:.0f})")
    said = [f"Means over maps ({len(scores)}), in percent: {', '.join(pooled)}."]
    for worse, better in pairwise(ORDER):
        found = probability_of_improvement(
            by_method[better], by_method[worse], drawn[better], drawn[worse]
        )
        said.append(
            f"P({better} > {worse}) = {found.value:.2f} ({found.low:.2f} … {found.high:.2f})."
        )
    share = share_in_order(by_method, drawn)
    said.append(f"In {share:.0%} of {RESAMPLES:,} resamples the means are in this order.")
    said.append("Intervals (95%) are of a bootstrap over seeds; the maps are its strata.")
    yield ""
    yield " ".join(said)


def means_over_maps(scores: Sequence[np.ndarray], drawn: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over maps of the means over seeds, of each resample; every map counts the same."""
    means = [task[runs].mean(1) for task, runs in zip(scores, drawn, strict=True)]
    return np.asarray(np.mean(means, 0))


def share_in_order(
    scores: Mapping[str, Sequence[np.ndarray]], drawn: Mapping[str, Sequence[np.ndarray]]
) -> float:
    """The share of resamples in which the means over maps are in this order."""
    means = [means_over_maps(scores[method], drawn[method]) for method in ORDER]
    return float(np.mean([np.all(np.diff(each) > 0) for each in zip(*means, strict=True)]))
