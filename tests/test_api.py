"""rltrain from Python, as a notebook uses it."""

from __future__ import annotations

import numpy as np

import rltrain


def test_dir_lists_the_functions_for_tab_completion():
    assert {"train", "evaluate", "load_policy", "make_trainer"} <= set(dir(rltrain))
    assert all(hasattr(rltrain, name) for name in dir(rltrain))


def test_a_result_has_the_history_of_every_metric(small):
    history = rltrain.train(small).history
    tested = history["env_steps"][~np.isnan(history["test/return_mean"])]
    assert tested[0] == 0
    assert len(tested) >= 4  # at 0, 100, 200 and the end
    assert {len(values) for values in history.values()} == {len(history["env_steps"])}
