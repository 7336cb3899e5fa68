"""The table of what fits what: its rows name what there is."""

import re
from types import SimpleNamespace

import pytest

from rltrain.config.catalog import SHIPPED
from rltrain.config.combinations import Facts, table, together
from rltrain.config.overrides import is_below

GIVEN = {
    *("agents", "asks", "capacity", "choices", "distribution", "divisible"),
    *("learns", "loss", "mixer", "most", "n_envs", "n_workers", "replay", "scripted"),
    *("spec", "typed", "statistics", "watched", "watchers", "world_size", "key", "node", "cores"),
    *("per_core", "explores", "explored", "explores_until", "twice_total", "end_key"),
    *("types_map", "untyped", "image", "image_keys"),
    *("target_period", "target_percent", "target_half", "target_unit", "target_unset"),
    *("masks", "space", "plays_itself", "any_image", "collected", "commanded", "played"),
    *("time_steps", "two_sided_training", "two_sided_tests"),
}
"""Facts that callers give beside the keys of a configuration."""
ROWS = [
    (stage, row)
    for section in ("refused", "warned")
    for stage, rows in table()[section].items()
    for row in rows
] + [("unread", row) for row in table()["unread"]]


@pytest.fixture(scope="module")
def keys():
    parts = (f"{group.replace('/', '.')}._target_" for group in SHIPPED.groups)
    return {*SHIPPED.keys({}), *SHIPPED.homes, *parts}


def test_every_option_and_group_exists():
    for row in together():
        for group, names in row.items():
            assert set(names) <= set(SHIPPED.options(group))


@pytest.mark.parametrize(("stage", "row"), ROWS, ids=lambda each: str(each)[:60])
def test_a_row_names_keys_and_facts_that_there_are(stage, row, keys):
    names = [*row["if"], *re.findall(r"\{([\w.]+)", row["why"] + row.get("type", ""))]
    keys = keys | {f"test.{key}" for key in keys if key.startswith("env.")}
    names += [
        v.split()[1] for v in row["if"].values() if re.match("(==|[<>]) [a-z]|!= .*[._]", str(v))
    ]
    assert [n for n in names if n not in keys and n.split(".")[0] not in GIVEN] == []
    assert set(row) <= {"if", "why", "type", "key"}


def test_every_key_that_nothing_reads_exists(keys):
    named = {key for row in table()["unread"] for key in row["key"].split()}
    assert [key for key in named if not any(is_below(known, [key]) for known in keys)] == []


@pytest.mark.parametrize(
    ("wanted", "values"),
    [
        (None, [None]),
        ("given", [0, False, "x", 7]),
        (True, ["x", 7]),
        (False, [None, 0, False]),
        ("x", ["x"]),
        ("> 0", [7]),
        ("< limit", [0, False]),
        ("!= x", [0, False, 7]),
        ("== part.size", [7]),
        ("!= part.size", [0, False, "x"]),
        ("> nothing", []),
        (">= limit", [7]),
        ("~ x$", ["x"]),
    ],
)
def test_a_condition_holds_for_these_values_alone(wanted, values):
    facts = Facts({}, limit=5, nothing=None, part=SimpleNamespace(size=7))
    tried = [None, 0, False, "x", 7]
    if str(wanted)[0] in "<>":
        tried.remove("x")
    assert [value for value in tried if facts.fits(value, wanted)] == values


def test_a_message_shows_values_as_they_are_typed_and_names_of_classes():
    facts = Facts({"algo": {"x": None, "y": 0.5}}, part=SimpleNamespace(), on=True)
    shown = facts.format("{algo.x} {algo.y:g} {part!t} {on}")
    assert shown == "null 0.5 SimpleNamespace true"
