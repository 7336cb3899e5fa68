"""Every mode refuses the keys that it does not read, typed or in a file."""

import re
from dataclasses import fields
from itertools import product

import pytest

from rltrain.config.catalog import PRESETS, SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.config.schema import RunSettings
from rltrain.config.validate.mode_keys import LOADED, NEVER_IN_A_FILE, ONLY_IN, require_read
from rltrain.errors import UsageError
from tests.helpers import nothing_written
from tests.marks import slow_except

KEYS = [*SHIPPED.keys({}), "algo.loss.gamma", "algo.batch_size", "hardware.n_envs"]
COMMANDS = {  # by the name of a mode in the table; the path of a run follows a =
    "train": [],
    "sweep": ["-m", "seed=1,2"],
    "tune": ["mode=tune"],
    "resume": ["resume="],
    "evaluate": ["mode=evaluate", "checkpoint="],
    "watch": ["mode=watch", "checkpoint="],
    "export": ["mode=export", "checkpoint="],
    "push": ["mode=push", "hub.repo=a/b", "checkpoint="],
    "import": ["mode=import", "checkpoint="],
    "match": ["mode=match", "checkpoints=[closest,focus]"],
    "report": ["mode=report"],
    "init": ["mode=init"],
}
OTHERS = {  # a key of each command's own node, with a value that is not the default
    "report": "report.metric=y",
    "runs": "runs=x",
    "match": "match.battles=4",
    "checkpoints": "checkpoints=[a,b]",
    "hub": "hub.private=false",
    "init": "init.folder=z",
    "tune": "tune.trials=3",
    "sweep": "sweep.jobs=3",
    "config": "config=other",
}


def is_read(mode, key):
    try:
        require_read([f"{key}=1"], mode)
    except UsageError:
        return False
    return True


def test_every_node_of_a_command_is_in_the_table_and_nothing_else():
    assert {*ONLY_IN} == {*OTHERS}
    assert {*ONLY_IN} <= {field.name for field in fields(RunSettings)}


@pytest.mark.parametrize("mode", COMMANDS)
def test_a_mode_reads_no_key_of_another_one(mode):
    own = {root for root, modes in ONLY_IN.items() if mode in modes}
    foreign = [key for key in KEYS if key.partition(".")[0] in {*ONLY_IN} - own]
    assert len(foreign) > 10
    assert [key for key in foreign if is_read(mode, key)] == []
    assert all(is_read(mode, key) for key in KEYS if key.partition(".")[0] in own)


@pytest.mark.parametrize("mode", LOADED)
def test_what_a_loaded_run_has_settled_is_not_read(mode):
    settled = "total_env_steps name stop save log self_play buffer callbacks algo.batch_size "
    settled += "algo.loss algo.optimizer hardware.n_envs test.interval test.record"
    nodes = tuple(f"{node}." for node in settled.split())
    foreign = [key for key in KEYS if f"{key}.".startswith(nodes)]
    assert len(foreign) > 20
    assert [key for key in foreign if is_read(mode, key)] == []


@pytest.mark.parametrize("mode", ["evaluate", "watch", "match", "export"])
def test_what_changes_the_episodes_of_a_loaded_run_is_read(mode):
    for key in ("seed", "trust", "env.backend", "env.maps", "test.episodes", "test.opponent"):
        assert is_read(mode, key)
    assert is_read(mode, "test.n_envs") is (mode != "watch")  # one after the other
    require_read(["env=smac", "algo=qmix", "tset.episodes=3"], mode)  # has an answer of its own


@pytest.mark.parametrize("mode", COMMANDS)
@pytest.mark.parametrize("root", OTHERS)
def test_a_command_with_a_key_that_it_does_not_read_is_refused(command, own_folder, mode, root):
    if mode in ONLY_IN[root]:
        return
    (own_folder / "run").mkdir()
    words = [f"{word}run" if word.endswith("=") else word for word in COMMANDS[mode]]
    with pytest.raises(UsageError, match=rf"^{OTHERS[root].partition('=')[0]}=\S+: only for "):
        command(*words, OTHERS[root])
    assert [path.name for path in own_folder.iterdir()] == ["run"]


OF_LEARNING = ("algo.batch_size=7", "algo.loss.gamma=0.5")
OF_A_RUN = (
    *("total_env_steps=5", "hardware.n_envs=3", "stop.hours=1", "name=foo", "test={interval: 5}"),
    "test.n_envs=4",
)


@pytest.mark.parametrize(
    ("run", "word"),
    [
        *product(["checkpoint=demo/cartpole"], [*OF_LEARNING, *OF_A_RUN]),
        *product(["algo=scripted algo.policy=random env=two_step"], OF_A_RUN),
    ],
)
def test_what_is_loaded_or_scripted_takes_no_key_without_effect(command, own_folder, run, word):
    mode = "watch" if word == "test.n_envs=4" else "evaluate"
    with pytest.raises(UsageError, match=f"{re.escape(word)}: has no effect with mode={mode}"):
        command(f"mode={mode}", *run.split(), word)
    assert nothing_written(own_folder)


@pytest.mark.parametrize("root", slow_except(NEVER_IN_A_FILE[::3], NEVER_IN_A_FILE))
def test_a_preset_sets_no_key_of_a_command(own_folder, root):
    key, _, value = OTHERS[root].partition("=")
    node, _, leaf = key.partition(".")
    text = f"{node}: {{{leaf}: {value}}}" if leaf else f"{node}: '{value}'"
    (own_folder / "my.yaml").write_text(f"{text}\n")
    composed = compose_checked(["env=two_step", "experiment=./my.yaml"])
    with pytest.raises(UsageError, match=f"{key} takes effect only where it is typed"):
        composed.settings()


def test_no_shipped_preset_sets_a_key_of_a_command():
    choices = [(group, option) for group in PRESETS for option in SHIPPED.options(group)]
    keys = {key for choice in choices for key in SHIPPED.own_keys(*choice)}
    assert len(keys) > 20
    assert not {key.partition(".")[0] for key in keys} & {*NEVER_IN_A_FILE}


def test_a_preset_may_have_settings_of_sweeps_and_searches(own_folder):
    (own_folder / "my.yaml").write_text("sweep: {jobs: 3}\ntune: {trials: 3}\n")
    settings = compose_checked(["env=two_step", "experiment=./my.yaml"]).settings()
    assert (settings.run.sweep.jobs, settings.run.tune.trials) == (3, 3)
