import json
import os
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import create_trial

from rltrain.errors import CheckpointError, UsageError
from rltrain.main import run
from rltrain.mode.tune.space import Parameter
from rltrain.mode.tune.study import next_trial, open_study, require_trials, trial_dir
from rltrain.mode.tune.study_results import RESULTS
from tests.mode.tune.test_study import run_settings

SPACE = [
    Parameter("algo.optimizer.lr", 1e-4, 1e-2, log=True),
    Parameter("algo.loss.double", choices=("true", "false")),
]
VALUES = {"algo.optimizer.lr": 1e-3, "algo.loss.double": "true"}
KINDS = {parameter.key: parameter.distribution for parameter in SPACE}


@pytest.fixture
def folder(tmp_path):
    open_study(tmp_path, run_settings()).add_trial(trial_of(VALUES, KINDS))
    trial_dir(tmp_path, 0).mkdir(parents=True)
    check(tmp_path)
    return tmp_path


def trial_of(values, kinds):
    return create_trial(value=1.0, params=values, distributions=kinds)


def check(folder):
    study = open_study(folder, run_settings())
    require_trials(study, folder, SPACE)
    return study


FOREIGN = {
    "another key": (
        VALUES | {"test.function": "evil.Run"},
        KINDS | {"test.function": CategoricalDistribution(["evil.Run"])},
        "'test.function' is not in tune.space",
    ),
    "another range": (
        VALUES | {"algo.optimizer.lr": 1.0},
        KINDS | {"algo.optimizer.lr": FloatDistribution(1e-4, 10, log=True)},
        "algo.optimizer.lr=1.0 does not lie in tune.space",
    ),
    "another choice": (
        VALUES | {"algo.loss.double": "{_target_: evil.Run}"},
        KINDS | {"algo.loss.double": CategoricalDistribution(["{_target_: evil.Run}"])},
        "does not lie in tune.space",
    ),
    "a key less": (
        {"algo.loss.double": "true"},
        {"algo.loss.double": KINDS["algo.loss.double"]},
        "it has no algo.optimizer.lr",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_trials_of_another_search_space_are_refused(folder, name):
    values, kinds, said = FOREIGN[name]
    open_study(folder, run_settings()).add_trial(trial_of(values, kinds))
    with pytest.raises(CheckpointError, match=f"journal.log.*trial 1: .*{said}"):
        check(folder)


DAMAGE = {
    "a value out of range": lambda lines: replaced(lines, '"algo.optimizer.lr": 0.001', 7.0),
    "an index out of range": lambda lines: replaced(lines, '"algo.loss.double": 0', 5),
    "no JSON": lambda lines: [*lines, b"{"],
    "a list": lambda lines: [*lines, b"[]"],
    "an unknown operation": lambda lines: [*lines, b'{"op_code": 99}'],
    "no operation": lambda lines: [*lines, b"{}"],
    "no UTF-8": lambda lines: [*lines, b"\xff\xfe"],
    "nested": lambda lines: [*lines, b"[" * 100_000],
    "an error that is no text": lambda lines: with_key(lines, "user_attrs", {"error": ["x"]}),
    **{
        f"{key}: {value}": lambda lines, key=key, value=value: with_key(lines, key, value)
        for key, values in {
            "directions": ([1], [1, 2], [], [2, 2], {}, [0], None),
            "value": (None, "1", [1.0], 1e400),
            "intermediate_values": ({"100": "x"}, {"100": None}),
        }.items()
        for value in values
    },
    **{
        f"values {values}": lambda lines, values=values: with_key(
            with_key(lines, "value", None), "values", values
        )
        for values in ([], [1.0, 2.0], ["1"], "1", 1)
    },
    "the middle is gone": lambda lines: [lines[0], *lines[2:]],
    "empty": lambda lines: [],
}


def with_key(lines, key, value):
    """The lines with another value of a key, where there is one."""
    records = [json.loads(line) for line in lines]
    assert any(key in record for record in records)
    return [
        json.dumps(record | ({key: value} if key in record else {})).encode() for record in records
    ]


def replaced(lines, old, new):
    """The lines with another number of a parameter."""
    text = json.dumps([json.loads(line) for line in lines])
    name, _, number = old.partition(": ")
    assert f"{name}: {number}" in text
    changed = json.loads(text.replace(f"{name}: {number}", f"{name}: {new}"))
    return [json.dumps(line).encode() for line in changed]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_journal_is_named(folder, name):
    path = folder / "journal.log"
    lines = DAMAGE[name](path.read_bytes().splitlines())
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"journal\.log is damaged or belongs to another"):
        check(folder)
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("cut", [1, 20, 100_000])
def test_an_unfinished_last_line_is_cut_and_the_study_goes_on(folder, cut):
    path = folder / "journal.log"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + lines[-1][:-1][:cut] * (1 + cut // 1000))
    for _ in range(2):
        trial, lock = next_trial(check(folder), folder, run_settings())
        os.close(lock)
        assert trial.number == 1
    assert path.read_bytes().startswith(b"".join(lines))


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_lock_that_a_killed_process_has_left_is_not_waited_for(folder, monkeypatch, make):
    make(folder / "journal.log.lock")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waits"))
    trial, lock = next_trial(check(folder), folder, run_settings())
    os.close(lock)
    assert trial.number == 1


def test_a_journal_of_another_kind_is_refused(folder):
    (folder / "journal.log").unlink()
    (folder / "journal.log").mkdir()
    with pytest.raises(CheckpointError, match=r"journal\.log cannot be read"):
        check(folder)


@pytest.mark.parametrize("overrides", [5, [1], None, "x"])
def test_a_study_of_other_overrides_is_refused(own_folder, overrides):
    (own_folder / "study").mkdir()
    (own_folder / "study/study.json").write_text(json.dumps({"overrides": overrides}))
    words = ["mode=tune", "algo=dqn", "env=cartpole", "tune.dir=study"]
    with pytest.raises(UsageError, match=r"a study with overrides .*, not .*algo=dqn"):
        run(words)


@pytest.mark.parametrize("name", RESULTS)
def test_a_folder_in_the_place_of_a_result_is_named_before_a_trial_begins(own_folder, name):
    (own_folder / "study" / name).mkdir(parents=True)
    about = {"overrides": ["algo=dqn", "env=cartpole"], "metric": "return_mean", "mode": "max"}
    (own_folder / "study/study.json").write_text(json.dumps(about))
    with pytest.raises(UsageError, match=f"study/{name} is a folder"):
        run(["mode=tune", "algo=dqn", "env=cartpole", "tune.dir=study"])
    assert not (own_folder / "study/journal.log").exists()
