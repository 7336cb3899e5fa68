"""Metrics are plain means over steps and episodes."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch

from rltrain.common.metrics import (
    METRICS,
    MetricRow,
    Metrics,
    episode_metrics,
    student,
    summarize,
    wilson,
)
from rltrain.errors import EnvError, UsageError
from rltrain.types import Episode


def test_metrics_are_plain_means_since_the_last_take():
    metrics = Metrics()
    metrics.add("learn", {"loss": torch.tensor(1.0)})
    metrics.add("learn", {"loss": torch.tensor(4.0), "other": 2.0})
    assert metrics.take() == {"learn/loss": 2.5, "learn/other": 2.0}
    assert metrics.take() == {}


def test_summary_of_a_hand_made_batch():
    episodes = [Episode(1.0, 10, {"win": False}), Episode(3.0, 20, {"win": True})]
    expected = {"test/return_mean": 2.0, "test/return_std": 1.0, "test/win_rate": 0.5}
    assert summarize(episodes) == {**expected, "test/episode_length_mean": 15.0}


def test_counts_of_an_environment_are_averaged_over_the_episodes_that_report_them():
    reporting = [Episode(1.0, 2, {"metrics": {"score": x}}) for x in (2.0, 5.0)]
    assert summarize([Episode(1.0, 2), *reporting])["test/score_mean"] == 3.5
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


QUANTILES = {2: 12.7062, 3: 4.3027, 5: 2.7764, 6: 2.5706, 9: 2.306, 32: 2.0395, 1001: 1.9623}


@pytest.mark.parametrize(("n", "quantile"), QUANTILES.items())
def test_intervals_of_means_have_the_quantiles_of_the_tables(n, quantile):
    assert student(math.sqrt(n - 1), n) == pytest.approx((1, quantile), abs=3e-4)


def test_an_interval_of_a_mean_contains_it_in_95_of_100_samples():
    """Defect: with the quantile of the normal distribution, those of two values did in 70."""
    rng = np.random.default_rng(0)
    for n in (2, 4, 8, 32):
        x = rng.normal(size=(20_000, n))
        halves = np.array([student(std, n)[1] for std in x.std(1)])
        assert (abs(x.mean(1)) <= halves).mean() == pytest.approx(0.95, abs=0.005)


@pytest.mark.parametrize(
    "value",
    [
        *(None, "x", [1.0], {}, (), object(), Decimal(1), b"x", np.str_("x"), torch.zeros(2)),
        *(np.zeros(3), np.zeros(0), np.array("x"), np.array(None)),
    ],
)
def test_a_value_that_is_no_number_is_named(value):
    metrics = Metrics()
    with pytest.raises(UsageError, match=r"custom/b is .*, expected numbers by name") as refused:
        metrics.add("custom", {"a": 1.0, "b": value})
    assert "\n" not in str(refused.value)
    assert metrics.take() == {"custom/a": 1.0}


@pytest.mark.parametrize(
    "value",
    [
        2,
        2.0,
        True,
        np.float32(2),
        np.int64(2),
        np.array([2]),
        torch.tensor(2),
        torch.tensor([[2.0]]),
    ],
)
def test_a_number_of_any_type_is_a_metric(value):
    metrics = Metrics()
    metrics.add("custom", {"a": value})
    assert metrics.take() == {"custom/a": 1.0 if value is True else 2.0}


WON = {"win": True, "draw": False, "opponent": "a_mean", "map": "b_mean"}


@pytest.mark.parametrize("name", ["return", "episode_length", "win_rate/a", "win_rate/b"])
def test_no_metric_of_an_environment_replaces_another_one(name):
    """Defect: ``return`` was that of the environment."""
    episodes = [Episode(1.0, 2), Episode(1.0, 2, {**WON, "metrics": {"score": 1.0, name: 100.0}})]
    for count in (episode_metrics, summarize):
        with pytest.raises(EnvError, match=f"with {name}, which would replace") as refused:
            count(episodes)
    assert refused.value.exit_code == 4


def test_metrics_of_an_environment_replace_none_of_the_table():
    """Those that end like one of the environment are the two that are refused."""
    names = {name.partition("/")[2] for name in METRICS if name.startswith(("train/", "test/"))}
    ends = {name for name in names if name.endswith("_mean")}
    assert ends == {"return_mean", "episode_length_mean"}


def test_rows_that_are_one_tensor_are_added_like_numbers_by_name():
    rows = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.5, 0.25]])
    one, other = Metrics(), Metrics()
    for row in rows:
        one.add("learn", MetricRow(("loss", "grad_norm"), row))
        other.add("learn", {"loss": row[0], "grad_norm": row[1]})
    one.add("learn", {"loss": 2.0})
    other.add("learn", {"loss": 2.0})
    assert one.state_dict() == other.state_dict()
    assert one.take() == other.take() == {"learn/loss": 1.625, "learn/grad_norm": 7.25 / 3}
    assert one.take() == {}


def test_a_row_is_a_mapping():
    row = MetricRow(("loss", "lr"), torch.tensor([1.0, 2.0]))
    assert {**row} == dict(row) == {"loss": 1.0, "lr": 2.0}
    assert (len(row), row.get("nothing", 0)) == (2, 0)


@pytest.mark.parametrize("resumes", [False, True])
def test_a_save_in_between_changes_no_digit(resumes):
    rows = torch.rand(64, 2) * 1000
    one, other = Metrics(), Metrics()
    for i, row in enumerate(rows):
        one.add("learn", MetricRow(("loss", "grad_norm"), row))
        other.add("learn", MetricRow(("loss", "grad_norm"), row))
        if i == 20:
            state = other.state_dict()
            other = Metrics() if resumes else other
            if resumes:
                other.load_state_dict(state)
    assert one.take() == other.take()


@pytest.mark.parametrize("value", ["x", [], [[1.0]], {}, None])
@pytest.mark.parametrize("name", ["sums", "counts"])
def test_saved_sums_and_counts_are_numbers(name, value):
    """Defect: the run failed later and blamed a value of its own."""
    metrics = Metrics()
    metrics.add("train", {"return_mean": 2.0})
    state = metrics.state_dict()
    state[name]["train/return_mean"] = value
    with pytest.raises(TypeError):
        Metrics().load_state_dict(state)
