import re
from functools import partial

import pytest
import yaml

from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.tune.space import Parameter, read_space, validated_space
from tests.helpers import data_rows


class Suggests:
    """Suggests the value at a share of a range and remembers how it was asked."""

    def __init__(self, share=0.0):
        self.share, self.asked = share, []

    def suggest_categorical(self, key, choices):
        self.asked.append(("choices", choices))
        return choices[0]

    def suggest_int(self, key, low, high, log):
        self.asked.append(("int", low, high, log))
        return int(low + self.share * (high - low))

    def suggest_float(self, key, low, high, log):
        self.asked.append(("float", low, high, log))
        return low + self.share * (high - low)


def test_entries_become_suggestions():
    entries = [
        {"key": "algo.optimizer.lr", "low": 1e-5, "high": 1e-3, "log": True},
        {"key": "algo.loss.n_step", "low": 1, "high": 5},
        {"key": "algo.network.hidden_sizes", "choices": [[64, 64], [128]]},
        {"key": "algo.loss.huber", "choices": [None, 1.0]},
    ]
    trial, space = Suggests(), read_space(entries)
    assert [p.suggest(trial) for p in space] == [
        "algo.optimizer.lr=1e-05",
        "algo.loss.n_step=1",
        "algo.network.hidden_sizes=[64, 64]",
        "algo.loss.huber=null",
    ]
    assert trial.asked == [
        ("float", 1e-5, 1e-3, True),
        ("int", 1, 5, False),
        ("choices", ("[64, 64]", "[128]")),
        ("choices", ("null", "1.0")),
    ]


@pytest.mark.parametrize(("of", "entry", "said"), [*data_rows("refused_spaces.txt")])
def test_wrong_entries_are_answered_with_what_is_expected(of, entry, said):
    """Defect: of choices only the first and the last were validated."""
    base = ["algo=dqn", "env=cartpole"]
    read = read_space if of == "by themselves" else partial(validated_space, overrides=base)
    entries = [{"key": "algo.loss.n_step", "choices": [1, 2, 3, 4]}, yaml.safe_load(entry)]
    for given in (entries, entries[1:]):
        with pytest.raises(UsageError, match=re.escape(said)):
            read(given)


def test_every_wrong_entry_is_reported():
    with pytest.raises(UsageError) as error:
        read_space([{"key": "a"}, {"key": "b", "choices": [1]}, {"key": "b", "choices": [2]}])
    assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize("name", SHIPPED.options("tune"))
def test_shipped_spaces_fit_their_algorithm(name):
    base = [f"algo={name}", "env=cartpole" if name == "dqn" else "env=smac"]
    entries = compose_checked([*base, f"tune={name}"]).settings().run.tune.space
    assert validated_space(entries, base) == read_space(entries)


FULL = {"key": "buffer.capacity", "low": 1e4, "high": 1e5, "log": True}


@pytest.mark.parametrize(
    ("entry", "whole"),
    [
        (FULL, True),
        ({**FULL, "low": 10_000}, True),
        ({"key": "algo.batch_size", "low": 16, "high": 64}, True),
        ({"key": "algo.exploration.end", "low": 0.0, "high": 1.0}, False),
        ({"key": "algo.loss.huber", "low": 1.0, "high": 2.5}, False),
        ({"key": "buffer.alpha", "low": 0.0, "high": 1.0}, False),  # of the chosen buffer
    ],
)
def test_every_value_that_a_range_suggests_is_valid(entry, whole):
    """Defect: the key buffer.capacity got 34324.1 of the range from 1e4 to 1e5."""
    base = ["algo=dqn", "env=cartpole"]
    buffer = {"key": "buffer", "choices": ["prioritized"]}
    first, parameter = validated_space([buffer, entry], base)
    assert parameter.whole == whole
    for share in (0.0, 0.37, 1.0):
        trial = Suggests(share)
        compose_checked([*base, first.suggest(trial), parameter.suggest(trial)]).settings()


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *((Parameter("a", 1, 9), value) for value in (0, 10, 1.5, "1", None, True)),
        *((Parameter("a", 0.5, 2.0), value) for value in (0.4, 2.1, float("nan"), "1", None)),
        *((Parameter("a", choices=("x", "1")), value) for value in ("y", 0, 1, None, [])),
    ],
)
def test_a_suggestion_outside_of_the_space_is_refused(parameter, value):
    trial = Suggests()
    for kind in ("categorical", "int", "float"):
        setattr(trial, f"suggest_{kind}", lambda *args, **kwargs: value)
    with pytest.raises(CheckpointError, match=r"a=.* does not lie in tune\.space"):
        parameter.suggest(trial)


@pytest.mark.parametrize("key", ["env.kwargs.scale", "+env.kwargs.scale"])
def test_a_typed_keyword_is_searched(key):
    base = ["algo=dqn", "env=gymnasium", "env.id=CartPole-v1", "+env.kwargs.scale=1"]
    (parameter,) = validated_space([{"key": key, "low": 0.5, "high": 2.0}], base)
    tree = compose_checked([*base, parameter.suggest(Suggests(1.0))]).tree
    assert tree["env"]["kwargs"] == {"scale": 2.0}
