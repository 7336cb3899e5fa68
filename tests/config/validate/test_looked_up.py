"""Metrics that a configuration may name are those that docs/metrics.md promises for it."""

import re

import pytest

from rltrain.api import settings_from
from rltrain.errors import UsageError

SEVERAL = ("algo/network=attention", "algo/mixer=entities", "env.maps=[3m,8m]")
NAMED = [
    ("3m", SEVERAL, "train test"),
    ("5m_vs_6m", SEVERAL, ""),
    ("3m", (*SEVERAL, "+test.env.maps=[8m]"), "train"),
    ("3m", (), ""),
    ("builtin", (), ""),
    ("closest", ("env.opponent=closest",), "train"),
    ("self", ("env.opponent=self", "test.opponent=random"), "train"),
    ("random", ("env.opponent=self", "test.opponent=random"), "test"),
    ("builtin", ("env.opponents={builtin: 1, random: 1}",), "train"),
    ("a-b-7", ("test.opponent=outputs/a-b/checkpoints/7",), "test"),
]


@pytest.mark.parametrize("key", ["stop.metric", "tune.metric"])
@pytest.mark.parametrize(("name", "words", "groups"), NAMED)
def test_a_win_rate_has_the_name_of_a_map_or_an_opponent(key, name, words, groups):
    typed = ["algo=qmix", "env=smac", *words, *(["stop.value=1"] if key == "stop.metric" else [])]
    for group in ("train", "test"):
        given = f"{key}={group}/win_rate/{name}"
        if group in groups.split() and (group == "test" or key == "stop.metric"):
            settings_from([*typed, given])
        else:
            with pytest.raises(UsageError, match=re.escape(f"{given}: no map of env.maps and no")):
                settings_from([*typed, given])


@pytest.mark.parametrize("value", ["true", "3m", "1.5", "{a: 1}", "[1]"])
def test_maps_that_are_no_list_of_names_are_the_only_problem(value):
    with pytest.raises(UsageError) as caught:
        settings_from(["algo=qmix", "env=smac", f"env.maps={value}"])
    assert [line.partition("=")[0] for line in str(caught.value).splitlines()] == ["env.maps"]


@pytest.mark.parametrize("metric", ["test/game_return_mean", "train/score_mean"])
def test_what_an_environment_counts_can_end_a_run(metric):
    settings = settings_from([f"stop.metric={metric}", "stop.value=1"])
    assert settings.run.stop.metric == metric
