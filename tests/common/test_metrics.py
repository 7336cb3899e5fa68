"""Metrics are plain means over steps and episodes."""

import pytest
import torch

from rltrain.common.metrics import Metrics, episode_metrics, summarize, wilson
from rltrain.types import Episode


def test_metrics_are_plain_means_since_the_last_take():
    metrics = Metrics()
    metrics.add("learn", {"loss": torch.tensor(1.0)})
    metrics.add("learn", {"loss": torch.tensor(4.0), "other": 2.0})
    assert metrics.take() == {"learn/loss": 2.5, "learn/other": 2.0}
    assert metrics.take() == {}


def test_summary_of_a_hand_made_batch():
    episodes = [Episode(1.0, 10, {"win": False}), Episode(3.0, 20, {"win": True})]
    assert summarize(episodes) == {
        "test/return_mean": 2.0,
        "test/return_std": 1.0,
        "test/episode_length_mean": 15.0,
        "test/win_rate": 0.5,
    }


def test_counts_of_an_environment_are_averaged_over_the_episodes_that_report_them():
    reporting = [Episode(1.0, 2, {"metrics": {"score": x}}) for x in (2.0, 5.0)]
    found = summarize([Episode(1.0, 2), *reporting])
    assert found["test/score_mean"] == 3.5
    assert episode_metrics(reporting)[0]["score_mean"] == 2.0


def test_win_rate_only_if_episodes_report_a_win():
    assert "win_rate" not in episode_metrics([Episode(1.0, 1)])[0]


@pytest.mark.parametrize(
    ("wins", "n", "low", "high"),
    [
        (0, 32, 0.0, 0.1072),
        (16, 32, 0.3364, 0.6636),
        (32, 32, 0.8928, 1.0),
        (8, 10, 0.4902, 0.9433),
    ],
)
def test_wilson_intervals_of_the_tables(wins, n, low, high):
    assert wilson(wins, n) == pytest.approx((low, high), abs=1e-4)
