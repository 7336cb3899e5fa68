"""metrics.jsonl read back."""

from __future__ import annotations

import json

import numpy as np

from rltrain.logger.curve import history


def test_history_is_one_row_per_env_step_with_nan_where_nothing_was_measured(tmp_path):
    lines = [
        {"env_steps": 0, "updates": 0, "episodes": 0, "seconds": 0.1, "test/return_mean": 1.0},
        {"env_steps": 5, "updates": 2, "episodes": 1, "seconds": 0.2, "learn/loss": None},
        {"env_steps": 5, "updates": 2, "episodes": 1, "seconds": 0.3, "test/return_mean": 3.0},
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"env_st', encoding="utf-8")
    found = history(path)
    assert found["env_steps"].tolist() == [0, 5]
    assert found["env_steps"].dtype == np.int64
    assert found["seconds"].tolist() == [0.1, 0.3]
    assert found["test/return_mean"].tolist() == [1, 3]
    assert np.isnan(found["learn/loss"]).all()


def test_a_run_without_metrics_has_an_empty_history(tmp_path):
    assert history(tmp_path / "metrics.jsonl") == {}
