"""Write rliable_numbers.json: numbers of rliable for fixed scores.

tests/report/test_statistics.py compares them with rltrain's. rliable needs an older pandas, hence
the stored numbers:

    python -m venv scratch
    scratch/bin/pip install 'rliable==1.2.0' 'pandas<3'
    scratch/bin/python tests/data/rliable_numbers.py
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

RESAMPLES, SEED = 500, 7


def main():
    rng = np.random.default_rng(0)
    scores = {
        "x": rng.normal(0.6, 0.2, (5, 3)).round(3),
        "y": rng.normal(0.5, 0.3, (7, 3)).round(1),  # has ties with itself and with x
        "z": rng.normal(0.9, 0.4, (10, 1)).round(3),
    }
    scores["y"][0] = scores["x"][0]
    thresholds = np.linspace(0, 1.2, 7)
    out = {"scores": {name: s.tolist() for name, s in scores.items()}}
    out |= {"resamples": RESAMPLES, "seed": SEED, "thresholds": thresholds.tolist()}
    functions = {
        "mean": metrics.aggregate_mean,
        "iqm": metrics.aggregate_iqm,
        "optimality_gap": metrics.aggregate_optimality_gap,
    }
    for name, function in functions.items():
        out[name] = {}
        for method in scores:
            np.random.seed(SEED)
            value, limits = library.get_interval_estimates(
                {method: scores[method]}, lambda s, f=function: np.array([f(s)]), reps=RESAMPLES
            )
            out[name][method] = [value[method].item(), *limits[method].ravel().tolist()]
    np.random.seed(SEED)
    value, limits = library.get_interval_estimates(
        {"x,y": (scores["x"], scores["y"])},
        lambda x, y: np.array([metrics.probability_of_improvement(x, y)]),
        reps=RESAMPLES,
    )
    out["improvement"] = [value["x,y"].item(), *limits["x,y"].ravel().tolist()]
    out["profile"] = {}
    for method in scores:
        np.random.seed(SEED)
        value, limits = library.create_performance_profile(
            {method: scores[method]}, thresholds, reps=RESAMPLES
        )
        out["profile"][method] = [value[method].tolist(), *limits[method].tolist()]
    Path(__file__).with_suffix(".json").write_text(json.dumps(out) + "\n")


main()
