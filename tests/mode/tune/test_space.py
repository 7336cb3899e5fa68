import pytest

from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from rltrain.mode.tune.space import read_space


class Suggests:
    """Suggests the lowest value and remembers how it was asked."""

    def __init__(self):
        self.asked = []

    def suggest_categorical(self, key, choices):
        self.asked.append(("choices", choices))
        return choices[0]

    def suggest_int(self, key, low, high, log):
        self.asked.append(("int", low, high, log))
        return low

    def suggest_float(self, key, low, high, log):
        self.asked.append(("float", low, high, log))
        return low


def test_entries_become_suggestions():
    trial, space = (
        Suggests(),
        read_space(
            [
                {"key": "algo.optimizer.lr", "low": 1e-5, "high": 1e-3, "log": True},
                {"key": "algo.loss.n_step", "low": 1, "high": 5},
                {"key": "algo.network.hidden_sizes", "choices": [[64, 64], [128]]},
                {"key": "algo.loss.huber", "choices": [None, 1.0]},
            ]
        ),
    )
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


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        ({"low": 1, "high": 2}, "{low: 1, high: 2}: expected {key: NAME"),
        ({"key": "seed", "choices": [1]}, "with a key of training"),
        ({"key": "a", "choices": []}, "a: expected {key"),
        ({"key": "a", "low": 2, "high": 1}, "expected low below high, both numbers, got 2 and 1"),
        ({"key": "a", "low": "x", "high": 1}, "got x and 1"),
        ({"key": "a", "low": 0, "high": 1, "log": True}, "above 0 on a logarithmic scale, got 0"),
        ({"key": "a", "low": 0, "high": 1, "step": 2}, "got {key: a, low: 0, high: 1, step: 2}"),
    ],
)
def test_wrong_entries_are_answered_with_what_is_expected(entry, answer):
    with pytest.raises(UsageError) as error:
        read_space([entry])
    assert answer in str(error.value)


def test_every_wrong_entry_is_reported():
    with pytest.raises(UsageError) as error:
        read_space([{"key": "a"}, {"key": "b", "choices": [1]}, {"key": "b", "choices": [2]}])
    assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize("name", SHIPPED.options("tune"))
def test_shipped_spaces_fit_their_algorithm(name):
    settings = compose_checked([f"algo={name}", f"tune={name}", *env_of(name)]).settings()
    for extremes in zip(*(p.extremes for p in read_space(settings.run.tune.space)), strict=True):
        compose_checked([f"algo={name}", *env_of(name), *extremes]).settings()


def env_of(name):
    return ["env=cartpole"] if name == "dqn" else ["env=smac"]
