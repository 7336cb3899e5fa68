"""Names and values are judged before anything is written: one line per problem, with what to
type.
"""

import json
import re

import pytest

from rltrain.api import settings_from
from rltrain.config.catalog import CONF, FREE_FORM, PRESETS, SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys, jobs, parse, pick, quoted, typed_value
from rltrain.config.python_objects import as_texts
from rltrain.config.saved_config import apply, read_config
from rltrain.config.trust import shipped_parts
from rltrain.errors import CheckpointError, UsageError
from tests.marks import slow_except


def test_all_problems_are_reported_together():
    with pytest.raises(UsageError) as names:
        compose_checked(["algo=qmx", "test.intervall=1", "+x=2"])
    assert len(str(names.value).splitlines()) == 3
    with pytest.raises(UsageError) as values:
        settings_from(["seed=-1", "algo.batch_size=0.5", "env.move_amount=-2"])
    assert len(str(values.value).splitlines()) == 3


@pytest.mark.parametrize(
    "name", slow_except(["3", "true"], ["3", "1e5", "true", "1_0", "1.5", "nan"])
)
def test_a_name_may_look_like_a_number(own_folder, name):
    (own_folder / "own/experiment").mkdir(parents=True)
    for path in (f"own/experiment/{name}.yaml", f"{name}.yaml"):
        (own_folder / path).write_text("# @package _global_\nseed: 7\n")
    folder = "hydra.searchpath=[own]"
    for words in ([f"experiment=./{name}.yaml"], [f"experiment={name}", folder]):
        assert settings_from(["env=two_step", *words]).run.seed == 7
    assert settings_from(["env=two_step", f"experiment='{name}'", folder]).run.seed == 7
    with pytest.raises(UsageError, match=f"unknown algo '{name}'"):
        settings_from([f"algo={name}"])


def test_a_run_folder_may_be_made_of_values(own_folder):
    assert compose_checked(["hydra.run.dir=${seed}"]).run_dir() == own_folder / "0"
    with pytest.raises(UsageError, match=r"hydra\.run\.dir cannot .* Type hydra\.run\.dir=VALUE"):
        compose_checked(["hydra.run.dir=${nothing}"]).run_dir()


@pytest.mark.parametrize("typed", ["1e6", "1_000_000", "1000000", "1000000.0"])
def test_whole_numbers_as_people_type_them(typed):
    settings = settings_from([f"total_env_steps={typed}"])
    assert settings.run.total_env_steps == 1_000_000
    assert settings.plain["total_env_steps"] == 1_000_000
    assert isinstance(settings.plain["total_env_steps"], int)


def test_free_form_nodes_take_new_keys():
    settings = settings_from(["+algo.optimizer.weight_decay=1e-5", "+logger.wandb.entity=us"])
    assert settings.nodes["algo.optimizer"].kwargs["weight_decay"] == 1e-5
    assert settings.nodes["logger.wandb"].kwargs["entity"] == "us"


ADDED = [
    (file.relative_to(CONF).with_suffix("").as_posix(), *example.split("="))
    for file in sorted(CONF.rglob("*.yaml"))
    for example in re.findall(r"#.*(\+[\w.]+=\w+)", file.read_text())
]


@pytest.mark.parametrize(("file", "key", "value"), ADDED)
def test_keys_that_comments_say_can_be_added_can(file, key, value):
    """Defect: those of Trackio were refused."""
    choice = [file.replace("/", "=")] if "/" in file else []
    assert str(pick(compose_checked([*choice, f"{key}={value}"]).tree, key[1:])) == value


LATER = [
    (["{}={{a: 1}}", "{}.a=2"], {"a": 2}),
    (["+{}.a=1", "{}.a=2"], {"a": 2}),
    (["+{}.a=1", "+{}.a=2"], {"a": 2}),
    (["+{}.a={{b: 1}}", "{}.a.b=2"], {"a": {"b": 2}}),
    (["+{}.a=1", "+{}.a.b=2"], {"a": {"b": 2}}),
    (["+{}.a=1", "+{}.b=2", "~{}.a"], {"b": 2}),
    (["+{}.a=1", "~{}.a=null", "+{}.a=2"], {"a": 2}),
    (["+{}.a={{b: 1}}", "~{}.a"], {}),
]
"""Overrides of one free-form node, and the keys they leave."""
WHOLE = [
    (["+{}.a=1", "~{}"], {}),
    (["+{}.a=1", "{}={{}}", "+{}.b=1"], {"b": 1}),
    (["{}=null", "+{}.a=1"], {"a": 1}),
]
"""The same for nodes without a class."""


@pytest.mark.parametrize("node", FREE_FORM)
def test_in_a_free_form_node_the_last_override_wins(node):
    """Defect: keys of the same command were unknown without the +, and there already with it."""
    base = ["algo=dqn", "env=gymnasium", "env.id=CartPole-v1", "hardware=ray"]
    base.append("logger=[wandb,trackio]")
    composed = compose_checked(base)
    saved = json.loads(json.dumps(composed.plain))
    shipped = pick(composed.tree, node)
    for words, left in [*LATER, *(() if "_target_" in shipped else WHOLE)]:
        typed = [word.format(node) for word in words]
        expected = {**shipped, **left}
        assert pick(compose_checked([*base, *typed]).tree, node) == expected, typed
        assert pick(apply(typed, saved)[0], node) == expected, typed
    for word in (f"~{node}.a", f"~{node}._target_", f"{node}.a=1", "~algo.optimizer.lr"):
        for refused in (
            lambda w=word: compose_checked([*base, w]),
            lambda w=word: apply([w], saved),
        ):
            with pytest.raises(UsageError):
                refused()


def test_what_a_run_saved_in_a_free_form_node_can_be_dropped():
    saved = {"env": {"_target_": "x", "kwargs": {"n": 2, "m": 1}}}
    for typed in (["~env.kwargs"], as_texts({"env.kwargs": {}}), as_texts({"~env.kwargs": None})):
        tree, changed = apply(typed, saved)
        assert (tree["env"]["kwargs"], changed) == ({}, ["env.kwargs.n", "env.kwargs.m"])
    tree, changed = apply(as_texts({"~env.kwargs.n": None}), saved)
    assert (tree["env"]["kwargs"], changed) == ({"m": 1}, ["env.kwargs.n"])
    with pytest.raises(UsageError, match=r"~env\.kwargs\.x: there is nothing to remove\. Leave it"):
        apply(["~env.kwargs.x"], saved)


@pytest.mark.parametrize("path", ["a=b/c", "a,b", "with blank", "it's", "plain/run"])
def test_paths_need_no_quotes(path):
    assert parse([f"checkpoint={path}"])[0].value() == path
    assert settings_from([f"checkpoint={path}"]).run.checkpoint == path
    assert quoted("seed=1") == "seed=1"


def test_the_last_value_of_a_key_counts_as_it_does_in_hydra():
    words = ["checkpoint=a", "seed=1", "checkpoint=b", "seed=2"]
    run = settings_from(words).run
    assert (run.checkpoint, run.seed) == ("b", 2)
    assert (typed_value(words, "checkpoint"), typed_value(words, "seed")) == ("b", 2)


def test_sweeps_become_jobs_in_argument_order():
    found = jobs(parse(["algo=vdn,qmix", "seed=range(1,3)", "total_env_steps=9"]))
    assert found[0] == ["algo=vdn", "seed=1", "total_env_steps=9"]
    pairs = [["algo=vdn", "seed=2"], ["algo=qmix", "seed=1"], ["algo=qmix", "seed=2"]]
    assert [f[:2] for f in found[1:]] == pairs


def test_pymarls_defaults_are_the_defaults():
    s = settings_from(["algo=qmix"])
    assert (s.algo.batch_size, s.algo.updates_per_episode, s.algo.max_grad_norm) == (32, 1.0, 10.0)
    assert s.nodes["algo.optimizer"].kwargs == {"lr": 5e-4, "alpha": 0.99, "eps": 1e-5}
    assert s.nodes["algo.exploration"].kwargs == {"start": 1.0, "end": 0.05, "env_steps": 50_000}
    assert s.nodes["algo.target_update"].kwargs["episodes"] == 200
    assert s.nodes["buffer"].kwargs["capacity"] == 5_000
    assert (s.run.test.interval, s.run.test.episodes) == (10_000, 32)
    assert s.nodes["env"].kwargs["time_limit"] == "terminal"


def saved(**changes):
    return {**settings_from([]).plain, "choices": {"algo": "qmix", "env": "smac"}, **changes}


def test_typed_words_change_a_loaded_configuration():
    tree, changed = apply(["seed=7", "total_env_steps=500000", "algo.loss.gamma=0.9"], saved())
    assert (tree["seed"], tree["algo"]["loss"]["gamma"]) == (7, 0.9)
    assert changed == ["seed", "algo.loss.gamma"]


@pytest.mark.parametrize("word", ["sed=1", "+new=1", "seed=1,2"])
def test_loaded_configurations_take_no_new_keys(word):
    with pytest.raises(UsageError):
        apply([word], saved())


@pytest.mark.parametrize("group", [group for group in SHIPPED.groups if group != "tune"])
def test_loaded_configurations_take_no_choices(group):
    """Defect: ``algo/network=mlp`` was an unknown key, in place of which it was to be typed."""
    word = f"{group}={SHIPPED.options(group)[-1]}"
    with pytest.raises(UsageError, match=f"^{word}: a loaded run keeps its {group}"):
        apply([word], saved())


@pytest.mark.parametrize("word", ["seed=${total_env_steps}", "name=${oc.env:USER}"])
def test_a_typed_interpolation_is_not_taken_for_one_of_the_file(word):
    """Defect: ``config.json`` was said to hold it."""
    with pytest.raises(UsageError, match=re.escape(f"{word}: ")):
        apply([word], saved())


@pytest.mark.slow
def test_what_a_loaded_run_lacks_is_not_to_be_had_by_a_choice_that_it_refuses():
    """Defect: ``hardware.n_workers=2`` was to be typed with ``hardware=process``, and that with
    ``hardware.NAME=VALUE``.
    """
    own = flat_keys(saved())
    of_others = {key: homes[0] for key, homes in SHIPPED.homes.items() if key not in own}
    assert {"hardware.n_workers", "env.game"} <= of_others.keys()
    for key, home in of_others.items():
        for keywords in ({}, {"resumes": True}, {"repeats": {"algo": "qmix", "env": "smac"}}):
            with pytest.raises(UsageError) as caught:
                apply([f"{key}=1"], saved(), **keywords)
            assert f"Type {home}" not in str(caught.value)
            if keywords:
                assert re.search(r"rltrain (checkpoint=RUN|algo=qmix|env=smac)", str(caught.value))


@pytest.mark.parametrize("typed", [["hardware=process"], ["hardware.n_workers=2"]])
def test_another_run_of_a_configuration_with_other_hardware_is_told_a_command(typed):
    with pytest.raises(UsageError) as caught:
        apply(typed, saved(), repeats={"algo": "dqn", "env": "two_step"})
    (command,) = re.findall(r"rltrain ([^,]*),", str(caught.value))
    assert settings_from(command.split()).choices["hardware"] == "process"


@pytest.mark.parametrize("text", ['{"a": "${oc.env:HOME}"}', '{"${x}": 1}', "[1]", "{", ""])
def test_loaded_configurations_are_plain_json(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(CheckpointError):
        read_config(file)


def test_environments_take_keywords_of_their_own():
    settings = settings_from(["algo=dqn", "env=gymnasium", "+env.kwargs.is_slippery=false"])
    assert settings.nodes["env"].kwargs["kwargs"] == {"is_slippery": False}


def test_shipped_targets_are_our_own():
    assert "rltrain.algo.QMix" in shipped_parts()["algo.mixer"]
    assert all(t.startswith("rltrain.") for each in shipped_parts().values() for t in each)


def first_definitions():
    """Every key with its comment, by the choice that has it."""
    yield "config.yaml", SHIPPED.root.keys
    for group in SHIPPED.groups:
        for option in SHIPPED.options(group) if group not in PRESETS else ():
            keys = SHIPPED.own_keys(group, option).items()
            parts = {at for at in SHIPPED.groups if "/" in at and at != group}
            own = {p: key for p, key in keys if "/".join(p.split(".")[:2]) not in parts}
            yield f"{group}={option}", own


def test_every_value_has_a_comment_where_it_is_first_defined():
    for choice, keys in first_definitions():
        assert [path for path, key in keys.items() if not key.meaning] == [], choice


def test_presets_do_not_repeat_the_comments_of_the_keys_they_set():
    known = {(path, key.meaning) for _, keys in first_definitions() for path, key in keys.items()}
    for group in PRESETS:
        for option in SHIPPED.options(group):
            file = SHIPPED.file(group, option)
            repeated = {(p, k.meaning) for p, k in file.keys.items()} & known if file else set()
            assert repeated == set(), f"{group}={option}"


def test_plain_configuration_survives_json():
    plain = settings_from(["algo=vdn"]).plain
    assert json.loads(json.dumps(plain)) == plain
