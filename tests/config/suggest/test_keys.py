"""What a wrong name or value is answered with: the override that was meant, ready to be typed."""

import random
import time
from pathlib import Path

import pytest

from rltrain.api import settings_from
from rltrain.config.catalog import FREE_FORM, SHIPPED, split_options
from rltrain.config.command_line import shell_word
from rltrain.config.compose import compose_checked
from rltrain.config.suggest.aliases import choice_aliases, tables, value_aliases
from rltrain.config.suggest.choices import for_choice
from rltrain.config.suggest.keys import for_key
from rltrain.config.suggest.value_forms import for_value
from rltrain.errors import UsageError

ROOT = Path(__file__).parents[3]


def answer(typed):
    with pytest.raises(UsageError) as caught:
        settings_from(typed.split())
    return str(caught.value)


def test_same_name_follows_the_algorithm():
    dqn = answer("algo=dqn env=cartpole tuned=none target_update_interval=9 hidden_size=64")
    assert "Type algo.target_update.env_steps=9 (" in dqn
    assert "Type 'algo.network.hidden_sizes=[64]'." in dqn
    assert "Type algo.network.hidden_dim=64." in answer("hidden_size=64")


def test_name_without_counterpart_says_so():
    assert answer("save_model=True") == (
        "Unknown key 'save_model'. There is nothing to set for it: checkpoints are saved without "
        "it, also at the end and on Ctrl-C."
    )


def test_few_choices_are_listed_and_many_are_not():
    assert answer("hardware=moon").endswith("Expected one of auto, cpu, cuda, ddp, process, ray.")
    assert "rltrain --help experiment lists all" in answer("experiment=nothing")
    assert "dqn, drqn, iql" in answer("algo=nothing")


def test_default_is_never_the_meaning_of_a_wrong_name():
    assert "train." not in answer("mode=play_it").partition("got")[2]
    assert str(for_value("mode", "xyzzy", ["train", "evaluate"], lambda _: False)) == ""


def typos(key, rng):
    """One edit of each kind, anywhere in a key."""
    i, c = rng.randrange(len(key)), rng.choice("abcdefghijklmnopqrstuvwxyz_.")
    yield key[:i] + key[i + 1 :]
    yield key[:i] + c + key[i:]
    yield key[:i] + c + key[i + 1 :]
    yield key[:i] + key[i : i + 2][::-1] + key[i + 2 :]


def test_one_edit_typos_of_every_key_find_it():
    """At least 95 of 100, and fast enough for a message."""
    rng, found, tried = random.Random(0), 0, 0
    SHIPPED.homes  # noqa: B018  read once, as in a command
    begin = time.process_time()
    for typed in ({}, {"algo": "dqn", "env": "cartpole"}, {"algo": "drqn", "env": "trading"}):
        known = {key: at.value for key, at in SHIPPED.keys(typed).items()}
        for key in known:
            for typo in typos(key, rng):
                if typo not in known:
                    typed_instead = for_key(typo, "1", known, SHIPPED).typed[:1]
                    found += [shell_word(f"{key}=1")] == [
                        t.replace("[1]", "1") for t in typed_instead
                    ]
                    tried += 1
    assert tried > 900
    assert found / tried >= 0.95
    assert (time.process_time() - begin) / tried < 0.02


def test_one_edit_typos_of_choices_find_them():
    rng, found, tried = random.Random(0), 0, 0
    for group in SHIPPED.groups:
        for option in SHIPPED.options(group):
            for typo in typos(option, rng):
                if typo not in SHIPPED.options(group) and len(option) > 3:
                    found += f"{group}={option}" in for_choice(group, typo, SHIPPED).typed
                    tried += 1
    assert found / tried >= 0.95


def overrides_of_the_tables():
    for sections in tables().values():
        for section, rows in sections.items():
            for row in rows if section != "Metrics" else ():
                keys = [key for word in row.ours.split() for key in word.split("|")]
                yield from (f"{key}=VALUE" for key in keys)
                yield from (word for words in row.values.values() for word in words.split())
    for rows in choice_aliases().values():
        yield from (word for row in rows for word in row.ours.split())
    for key, values in value_aliases().items():
        yield from (f"{key}={value}" for value in values.values())


def exists(override):
    name, _, value = override.partition("=")
    key = name.lstrip("+")
    if name in SHIPPED.groups:
        return set(split_options(value)) <= {*SHIPPED.options(name), "VALUE"}
    if name == "--cfg":
        return value == "job"
    if name.startswith("+"):
        return any(f"{key}.".startswith(f"{node}.") for node in FREE_FORM)
    nodes = ("hydra.", "algo.network._target_", *SHIPPED.root.keys)
    return key in SHIPPED.homes or key.startswith(nodes)


def test_everything_that_is_suggested_exists():
    suggested = set(overrides_of_the_tables())
    assert len(suggested) > 200
    assert [override for override in suggested if not exists(override)] == []


def test_names_of_a_row_have_a_target_each():
    for sections in tables().values():
        for rows in sections.values():
            for row in rows:
                assert len(row.ours.split()) in (0, 1, len(row.theirs.split())), row


def test_suggested_keys_are_accepted():
    compose_checked(
        ["algo.optimizer.lr=0.1", "+algo.optimizer.weight_decay=1e-5", "algo/mixer=sum"]
    )


def test_a_correct_command_reads_no_names_of_other_libraries():
    tables.cache_clear()
    compose_checked(["algo=dqn", "env=cartpole", "algo.optimizer.lr=0.1"])
    assert tables.cache_info().currsize == 0
