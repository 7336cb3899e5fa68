import json
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import create_trial

from rltrain.errors import CheckpointError, UsageError
from rltrain.main import run
from rltrain.mode.tune.space import Parameter
from rltrain.mode.tune.study import open_study, require_trials, suggest, trial_dir
from rltrain.mode.tune.study_results import RESULTS
from rltrain.mode.tune.trials import config_digest
from tests.helpers import unchanged
from tests.marks import each_once
from tests.mode.tune.test_study import next_of, run_settings

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
    require_trials(folder, run_settings(), SPACE)
    return open_study(folder, run_settings())


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
    "user attributes that are no object": lambda lines: with_key(lines, "user_attrs", [1]),
    "a range without a value": lambda lines: with_key(lines, "params", {}),
    "a study that was deleted": lambda lines: [*lines, record(op_code=1, study_id=0)],
    "an attribute of the study": lambda lines: [
        *lines,
        record(op_code=3, study_id=0, system_attr={"study:metric_names": 5}),
    ],
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
        f"values {values}": lambda x, v=values: with_key(with_key(x, "value", None), "values", v)
        for values in ([], [1.0, 2.0], ["1"], "1", 1)
    },
    "the middle is gone": lambda lines: [lines[0], *lines[2:]],
    "empty": lambda lines: [],
}


OTHER_JOURNAL = r"journal\.log is damaged or belongs to another"


def record(**fields):
    """A record of another process."""
    return json.dumps({"worker_id": "other", **fields}).encode()


def with_key(lines, key, value):
    """The lines with another value of a key, where there is one."""
    records = [json.loads(line) for line in lines]
    assert any(key in record for record in records)
    return [json.dumps(r | ({key: value} if key in r else {})).encode() for r in records]


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
    with unchanged(folder), pytest.raises(CheckpointError, match=OTHER_JOURNAL):
        check(folder)


ENTRIES = [
    {"key": "algo.optimizer.lr", "low": 1e-4, "high": 1e-2, "log": True},
    {"key": "algo.loss.double", "choices": [True, False]},
]
OVERRIDES = ["algo=dqn", "env=cartpole", "total_env_steps=300"]
ABOUT = {
    **{"overrides": OVERRIDES, "space": ENTRIES, "metric": "auto", "mode": "max", "last_tests": 3},
    **{"sampler": "tpe", "pruner": "median", "config_sha256": config_digest(OVERRIDES)},
}
LR_ENTRY = "{key: algo.optimizer.lr, low: 1e-4, high: 1e-2, log: true}"
DOUBLE_ENTRY = "{key: algo.loss.double, choices: [true, false]}"
COMMAND = ["mode=tune", *OVERRIDES, "tune.dir=.", f"tune.space=[{LR_ENTRY}, {DOUBLE_ENTRY}]"]
OTHER_CONTENT = {
    "missing": lambda text: None,
    "NULs": lambda text: bytes(100),
    "no newline": lambda text: b'{"mine": 1}',
    "UTF-16": lambda text: text.decode().encode("utf-16"),
    "UTF-32": lambda text: text.decode().encode("utf-32-be"),
    "NULs among the records": lambda text: text.replace(b"\n", b"\n" + bytes(9) + b"\n", 1),
}


@pytest.mark.parametrize("name", OTHER_CONTENT)
def test_a_journal_of_other_content_is_refused_before_it_is_changed(folder, name):
    """Defect: it was cut at its last newline, or written anew."""
    path = folder / "journal.log"
    content = OTHER_CONTENT[name](path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    (folder / "study.json").write_text(json.dumps(ABOUT))
    with unchanged(folder), pytest.raises(CheckpointError, match=OTHER_JOURNAL):
        run(COMMAND)


LR = "algo.optimizer.lr"
ATTRIBUTES = [
    *({"fixed_params": {key: value}} for key, value in ((LR, 77.0), (LR, None), (LR, 1e-3))),
    *({"fixed_params": value} for value in ({"buffer": "zzz"}, {}, None, 5)),
    *({"constraints": value} for value in ([1.0], "a", 5, None)),
    {"constraints:a": 1.0},
    *({"completed_rung_0": value} for value in ("1", None, [1.0], 1e400)),
    *({f"completed_rung_{n}": 1.0} for n in ("", "x", "-1")),
    *({"tpe:relative_params:0": value} for value in (5, None, "{", "[]", "[" * 500, "5")),
    *(
        {f"{sampler}:relative_params:0": json.dumps({key: value})}
        for sampler in ("tpe", "gp")
        for key, value in (
            *((LR, x) for x in (77.0, "x", None, [], -1.0, True, float("nan"))),
            *(("algo.loss.double", x) for x in (0, "x", None, [])),
            ("buffer", "zzz"),
        )
    ),
    {"mine": 1},
]


@pytest.mark.parametrize("running", [False, True])
def test_only_attributes_that_samplers_and_pruners_set_are_taken(folder, running):
    """Defect: a trial was trained with values outside of tune.space, or ended in a traceback."""
    path = folder / "journal.log"
    if running:
        open_study(folder, run_settings()).ask()
    whole = path.read_bytes()
    for attributes in [*ATTRIBUTES, *([] if running else (5, [1], "x", None))]:
        if running:
            text = whole + record(op_code=9, trial_id=1, system_attr=attributes) + b"\n"
        else:
            lines = with_key(whole.splitlines(), "system_attrs", attributes)
            text = b"".join(line + b"\n" for line in lines)
        path.write_bytes(text)
        with pytest.raises(CheckpointError, match=r"journal\.log is damaged.* trial \d: ") as no:
            check(folder)
        assert "\n" not in str(no.value)
        assert path.read_bytes() == text


def test_an_attribute_of_others_is_refused_before_a_trial_is_trained(folder):
    open_study(folder, run_settings()).ask()
    foreign = record(op_code=9, trial_id=1, system_attr={"fixed_params": {LR: 77.0}})
    with (folder / "journal.log").open("ab") as file:
        file.write(foreign + b"\n")
    (folder / "study.json").write_text(json.dumps(ABOUT))
    said = "trial 1: its attribute 'fixed_params' is not"
    with unchanged(folder), pytest.raises(CheckpointError, match=said):
        run(COMMAND)


@each_once(
    sampler=["tpe", "gp", "random"], pruner=["median", "successive_halving", "hyperband", "none"]
)
def test_attributes_of_the_samplers_and_pruners_are_taken(tmp_path, sampler, pruner):
    words = [f"tune.sampler={sampler}", f"tune.pruner={pruner}", "total_env_steps=900"]
    settings = run_settings(*words, "tune.trials=13")
    study, attributes = open_study(tmp_path, settings), set()
    for number in range(12):
        with next_of(tmp_path, settings) as (_, trial):
            suggest(study, trial, SPACE, settings)
            for step in (200, 600, 900):
                trial.report(float(number), step)
                trial.should_prune()
            if number < 11:
                study.tell(trial, float(number))
    for trial in study.get_trials():
        attributes |= set(trial.system_attrs)
    assert any("relative_params" in key for key in attributes) == (sampler != "random")
    assert ("completed_rung_0" in attributes) == (pruner in ("successive_halving", "hyperband"))
    require_trials(tmp_path, settings, SPACE)


@pytest.mark.parametrize("cut", [1, 20, 100_000])
def test_an_unfinished_last_line_is_cut_and_the_study_goes_on(folder, cut):
    path = folder / "journal.log"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + lines[-1][:-1][:cut] * (1 + cut // 1000))
    for _ in range(2):
        check(folder)
        with next_of(folder, run_settings()) as (_, trial):
            assert trial.number == 1
    assert path.read_bytes().startswith(b"".join(lines))


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_lock_that_a_killed_process_has_left_is_not_waited_for(folder, monkeypatch, make):
    make(folder / "journal.log.lock")
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waits"))
    check(folder)
    with next_of(folder, run_settings()) as (_, trial):
        assert trial.number == 1


def test_a_journal_of_another_kind_is_refused(folder):
    (folder / "journal.log").unlink()
    (folder / "journal.log").mkdir()
    with pytest.raises(CheckpointError, match=r"journal\.log cannot be read"):
        check(folder)


def test_the_beginning_of_the_first_record_is_cut(folder):
    path, line = folder / "journal.log", (folder / "journal.log").read_bytes().splitlines()[0]
    trial_dir(folder, 0).rmdir()
    for end in (0, 1, 5, 20, len(line)):
        path.write_bytes(line[:end])
        assert check(folder).trials == []


@pytest.mark.parametrize("name", RESULTS)
def test_a_folder_in_the_place_of_a_result_is_named_before_a_trial_begins(own_folder, name):
    (own_folder / "study" / name).mkdir(parents=True)
    about = {"overrides": ["algo=dqn", "env=cartpole"], "metric": "return_mean", "mode": "max"}
    (own_folder / "study/study.json").write_text(json.dumps(about))
    with pytest.raises(UsageError, match=f"study/{name} is a folder"):
        run(["mode=tune", "algo=dqn", "env=cartpole", "tune.dir=study"])
    assert not (own_folder / "study/journal.log").exists()
