"""Overrides as a mapping mean what the same keys mean when they are typed."""

from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest

from rltrain.api import settings_from
from rltrain.config.catalog import SHIPPED
from rltrain.config.python_objects import as_texts
from rltrain.config.schema import ClusterSettings, OpponentSettings, RunSettings
from rltrain.errors import UsageError
from rltrain.mode.train import Result


@pytest.mark.parametrize(
    ("mapping", "texts"),
    [
        ({"algo": "dqn", "algo.loss.gamma": 0.9}, ["algo=dqn", "algo.loss.gamma=0.9"]),
        ({"algo": {"loss": {"gamma": 0.9}}, "seed": 3}, ["algo.loss.gamma=0.9", "seed=3"]),
        ({"algo/network": "mlp"}, ["algo/network=mlp"]),
        (
            {"algo.max_grad_norm": None, "record": False},
            ["algo.max_grad_norm=null", "record=false"],
        ),
        ({"algo.optimizer.lr": np.float32(0.5)}, ["algo.optimizer.lr=0.5"]),
        ({"algo.network.hidden_sizes": (64, 32)}, ["algo.network.hidden_sizes=[64, 32]"]),
        ({"checkpoint": Path("a b,c=d")}, ["checkpoint='a b,c=d'"]),
        ({"checkpoint": Result(Path("outputs/a"))}, ["checkpoint=outputs/a"]),
        ({"env.kwargs": {"size": 3}}, ["env.kwargs={size: 3}"]),
        ({"callbacks": [{"_target_": "a.B", "key": 1}]}, ["callbacks=[{_target_: a.B, key: 1}]"]),
        ({"env.game_version": "4.10"}, ["env.game_version='4.10'"]),
    ],
)
def test_a_mapping_is_what_would_be_typed(mapping, texts):
    assert as_texts(mapping) == texts


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"algo.mixer": Path}, r"^algo\.mixer=Path: .*'algo\.mixer\._target_': 'pathlib[.\w]+'"),
        ({"algo.mixer._target_": Path}, r" 'algo\.mixer\._target_': 'pathlib[.\w]+'"),
        ({"algo.mixer": {"_target_": Path}}, r" 'algo\.mixer\._target_': 'pathlib[.\w]+'"),
        ({"callbacks": [{"_target_": Path}]}, r" 'callbacks\._target_': 'pathlib[.\w]+'"),
        ({"callbacks": [object()]}, r"^callbacks=<.*pass it as the argument callbacks=…"),
        ({"callbacks": object()}, r"pass it as the argument callbacks=…"),
        ({"env": Path}, r"pass it as the argument env=…"),
        ({"env.kwargs": {"a": [object()]}}, r"^env\.kwargs\.a=<.*expected a number.*got object"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_what_no_configuration_holds_is_answered_with_what_to_type(mapping, said):
    with pytest.raises(UsageError, match=said):
        as_texts(mapping)


def keys_of_mappings(kind, prefix=""):
    """Keys of settings whose own type is a mapping."""
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield from keys_of_mappings(hint, f"{prefix}{name}.")
        elif any(get_origin(each) is dict for each in (hint, *get_args(hint))):
            yield prefix + name


MAPPINGS = {
    *keys_of_mappings(RunSettings),
    *keys_of_mappings(OpponentSettings, "env."),
    *keys_of_mappings(ClusterSettings, "hardware."),
    *(
        key
        for group in ("env", "hardware")
        for option in SHIPPED.options(group)
        for key, default in SHIPPED.own_keys(group, option).items()
        if default.value == "{}"
    ),
}


@pytest.mark.parametrize("key", sorted(MAPPINGS))
def test_a_key_whose_value_is_a_mapping_takes_one(key):
    """Defect: {"env.opponents": {"builtin": 1}} became the key env.opponents.builtin."""
    *nodes, leaf = key.split(".")
    nested = {leaf: {"x": 1}}
    for node in reversed(nodes):
        nested = {node: nested}
    assert as_texts({key: {"x": 1}}) == as_texts(nested) == [f"{key}={{x: 1}}"]


@pytest.mark.parametrize("key", ["own rock:Rock", "outputs/a=b", "a,b", "{x}[0](y)", "back\\slash"])
def test_signs_in_the_keys_of_a_mapping_are_part_of_them(key):
    """Defect: ``{own rock:Rock: 1}`` cannot be read."""
    given = {"env": "gymnasium", "env.id": "CartPole-v1", "env.kwargs": {key: {key: 1}}}
    assert settings_from(given).nodes["env"].kwargs["kwargs"] == {key: {key: 1}}


def test_texts_stay_as_they_are():
    assert as_texts(("seed=1", "algo=dqn")) == ["seed=1", "algo=dqn"]
    assert as_texts(map(str, ["seed=1", "algo=dqn"])) == ["seed=1", "algo=dqn"]


@pytest.mark.parametrize("given", ["algo=dqn", [("seed", 1)], [3]])
def test_what_is_neither_texts_nor_a_mapping_is_refused(given):
    with pytest.raises(UsageError, match=r"expected a list such as \['algo=dqn'"):
        as_texts(given)


def test_values_arrive_in_the_settings():
    typed = {"algo": "dqn", "env": "gymnasium", "env.id": "CartPole-v1", "test.episodes": 1e1}
    typed |= {"env.kwargs": {"sutton_barto_reward": True}, "dataset.write": "a folder, with=signs"}
    typed |= {"algo.network": {"hidden_sizes": [8], "dueling": True}}
    settings = settings_from(typed)
    assert settings.nodes["env"].kwargs["kwargs"] == {"sutton_barto_reward": True}
    assert settings.nodes["algo.network"].kwargs["hidden_sizes"] == [8]
    assert (settings.run.dataset.write, settings.run.test.episodes) == ("a folder, with=signs", 10)
