"""Every key that can hold a path, an address or anything at all carries a mark, and hostile nodes
are refused wherever they stand.
"""

import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from benchmarks.faults.attacks import NODES, OVERRIDES
from rltrain.battles.scripted.policies import DECISIONS
from rltrain.common.checkpoint.opponent_files import NAMED, is_checkpoint
from rltrain.config import schema, trust
from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.config.node import part_facts
from rltrain.config.overrides import flat_keys, parse, pick, put, typed_leaves
from rltrain.config.trust import NOWHERE, as_overrides, gate, leave_out
from rltrain.config.validate.constructor import find_constructor
from rltrain.errors import CheckpointError, NotTypedError, RltrainError, UsageError
from rltrain.mode.sweep.plan import SweepJob, SweepPlan
from rltrain.mode.sweep.saved import saved_jobs
from tests.marks import slow_except

INSIDE = {
    "test.env": "options over those of env, and marked as they are",
    "env.id": "passes from an exact list only",
    "env.game": "a name of ALE's, which has no folders",
    "env.team": "compared with the names of agents",
    "env.opponent_team": "compared with the names of agents",
    "env.map_name": "a name in a table of maps",
    "env.maps": "names in that table, or that of env.map_file",
    "env.game_version": "a name among the installed versions",
    "stop.metric": "compared with the metrics of a run",
    "test.function": "a class, which needs trust",
    "logger.wandb.project": "kept",
    "logger.wandb.group": "kept",
    "logger.wandb.tags": "kept",
}
"""Keys of texts that name nothing outside, and why."""
SETTINGS = {
    "": schema.RunSettings,
    "algo": schema.AlgoSettings,
    "hardware": (schema.HardwareSettings, schema.WorkerSettings, schema.ClusterSettings),
    "env": schema.OpponentSettings,
    "logger": schema.LoggerSettings,
}


def is_open(annotation: typing.Any) -> bool:
    """Whether an annotation accepts texts that are not listed, or anything."""
    if annotation in (str, typing.Any):
        return True
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return False
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return True
    return any(is_open(each) for each in typing.get_args(annotation))


def of_settings(kind: typing.Any, prefix: str) -> Iterator[tuple[str, typing.Any]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for name in (f.name for f in fields(kind)):
        key = f"{prefix}.{name}" if prefix else name
        if is_dataclass(hints[name]):
            yield from of_settings(hints[name], key)
        else:
            yield key, hints[name]


def open_keys() -> Iterator[str]:
    """Every key of the settings and of the shipped parts that accepts any text, or any name."""
    for prefix, kinds in SETTINGS.items():
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            yield from (key for key, annotation in of_settings(kind, prefix) if is_open(annotation))
    for part, targets in trust.shipped_parts().items():
        for target in targets:
            found, facts = find_constructor(target), part_facts(part)
            words = (k for k, a in found.annotations.items() if is_open(a) and k not in facts)
            yield from (f"{part}.{k}" for k in words)
            yield from [f"{part}.any_name"] if found.free else []


@pytest.fixture(scope="module")
def keys() -> list[str]:
    return sorted(set(open_keys()) - {"env.maker", "callbacks.name"})


def test_the_keys_that_reach_outside_are_found(keys):
    assert {"dataset.write", "hardware.address", "env.prices", "logger.wandb.any_name"} <= {*keys}


def is_known(key: str) -> bool:
    """Whether a key is marked or listed above."""
    marks = [trust.key_kind(tuple(f"{key}{end}".split("."))) for end in ("", ".any_name")]
    of_a_list = trust.OUTSIDE.get(key.partition(".")[0])  # callbacks, which are one value
    return any(marks) or bool(of_a_list) or key.removeprefix("test.") in INSIDE or key in INSIDE


def test_keys_of_any_text_are_marked_or_known_to_stay_inside(keys):
    assert [key for key in keys if not is_known(key)] == [], (
        "They can hold any text: mark them in rltrain/config/trust.py if that may be a "
        "path, an address or of any form, or list them here with the reason why they stay inside."
    )


def test_marks_are_of_keys_that_there_are(keys):
    known = {*keys, *OPEN_NODES}
    for form in trust.OUTSIDE:
        assert form.removesuffix(".*") in known or form.removesuffix("*") + "any_name" in known, (
            form
        )


OPEN_NODES = ("mode", "record", "hub", "init", "match", "report", "sweep", "tune", "callbacks")


def test_tests_have_the_marks_of_their_environment():
    assert trust.key_kind(("test", "env", "prices")) == trust.key_kind(("env", "prices")) == "file"
    assert {"env.prices", "test.env.prices"} <= {*trust.FILES}


def test_what_names_environments_by_ids_is_listed():
    with_ids = {t for t in trust.shipped_parts()["env"] if "id" in find_constructor(t).annotations}
    assert with_ids == {*trust.REGISTERED, "rltrain.env.pettingzoo_env"}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        *[
            (v, True)
            for v in (1, 2.5, None, True, "", "4x4", "hard", "train/return_mean", [1, "a"])
        ],
        *[
            (v, False)
            for v in ("/x", "a/b", "..", "a.b", "http:", "a b", "a\n", ["/x"], {"a": "."})
        ],
        *[(v, False) for v in ({"a/b": 1}, "x" * 65, "~", "$x", "ü/")],
    ],
)
def test_numbers_and_single_words_are_harmless(value, plain):
    assert trust.is_plain(value) is plain


@pytest.mark.parametrize(
    ("value", "typed"),
    [("rltrain", False), ("", False), *((v, True) for v in ("../x", "/x", "a b"))],
)
def test_names_of_folders_of_trackio_are_typed_unless_they_are_words(value, typed):
    options = {"_target_": "rltrain.logger.Trackio", "project": value, "group": None}
    assert bool(trust.outside({"logger": {"trackio": options}})) is typed


@pytest.mark.parametrize("name", ["closest", "random", "self", "builtin", "team", "qmix", "a/b"])
def test_opponents_are_typed_unless_no_folder_takes_their_name(name, own_folder):
    """Defects: a folder of the name of a scripted policy was played against in another folder; a
    lost copy of an opponent was replaced by whatever had its name.
    """
    assert {*NAMED} == {"builtin", "self", "random", *DECISIONS}
    (own_folder / name).mkdir(parents=True)
    assert is_checkpoint(name) is (name not in NAMED)
    assert is_checkpoint(f"./{name}")
    for tree in ({"opponent": name}, {"opponents": {name: 1.0}}):
        assert bool(trust.outside({"env": tree})) is (name not in NAMED)
    assert bool(trust.outside({"test": {"opponent": name}})) is (name not in NAMED)


@pytest.mark.parametrize("text", ["os:system", "a.b:C", "_a:b.c"])
def test_modules_are_known_by_their_form(text):
    assert trust.MODULE.fullmatch(text)


CHOICES = [
    f"{group}={option}"
    for group in SHIPPED.groups
    if group not in ("tuned", "tune")
    for option in SHIPPED.options(group)
]
FAST = ("env=trading",)
ALLOWED = {"callbacks": NODES["own callback"]["_target_"], "logger.csv": "rltrain.logger.CsvFile"}
"""A node that is nothing strange at its key: ``own_callback`` refuses to be built."""
FILE = Path("config.json")


def composed(choice):
    """The configuration of a choice, with the first algorithm that goes with it."""
    group, _, option = choice.partition("=")
    typed = f"logger=[{option}]" if group == "logger" else choice
    for algo in ([], *([f"algo={name}"] for name in SHIPPED.options("algo"))):
        try:
            return compose_checked([typed, *algo]).plain
        except UsageError:
            continue
    raise AssertionError(choice)


@pytest.mark.parametrize("choice", slow_except(FAST, CHOICES))
def test_no_hostile_node_passes_at_any_node(choice):
    tree = composed(choice)
    gate(tree, FILE)  # the configuration itself is harmless
    nodes = [key for key in flat_keys(tree) if not key.endswith("_target_")]
    for key in [*nodes, *(f"{key}.added" for key in nodes if isinstance(pick(tree, key), dict))]:
        for name, node in NODES.items():
            named = node.get("_target_") if isinstance(node, dict) else None
            if named is None or named != ALLOWED.get(key):
                assert not passes(with_node(tree, key, node)), f"{name} at {key}"


def passes(tree):
    """Whether a configuration passes the gate."""
    try:
        gate(tree, FILE)
    except (CheckpointError, NotTypedError):
        return False
    return True


def with_node(tree, key, node):
    """A tree with a node in place of a key; nothing else is copied."""
    name, _, rest = key.partition(".")
    if rest:
        node = with_node(tree[name], rest, node)
    return {**tree, name: [node] if key == "callbacks" else node}


@pytest.mark.parametrize("overrides", slow_except(OVERRIDES[::4], OVERRIDES))
def test_no_hostile_override_of_a_sweep_passes(own_folder, overrides, trained_once):
    Path("evil.yaml").write_text("# @package _global_\ncallbacks: [{_target_: os.system}]\n")
    words = overrides.split("\n")
    words = words if any(w.startswith("env=") for w in words) else ["env=two_step", *words]
    plan = SweepPlan(Path("s"), (), "", 1, "", (SweepJob(Path("s/0"), tuple(words)),))
    with pytest.raises(RltrainError) as refused:
        saved_jobs(plan, [])
    assert refused.value.exit_code in (2, 3)
    assert not (own_folder / "PWNED").exists()


@pytest.mark.parametrize("value", [[1, [2]], "text", None, 3, {"a": 1}])
@pytest.mark.parametrize("path", ["env", "algo.loss", "buffer"])
def test_what_is_left_out_may_be_no_part(path, value):
    tree = {"algo": {}}
    put(tree, path, value)
    leave_out(tree, [path])
    assert pick(tree, f"{path}._target_") == NOWHERE


@pytest.mark.parametrize("trust", [(), ("b",), ("other", "c")])
def test_what_to_type_for_several_packages_is_said_at_once(trust):
    """Defect: the first was named, and typing it refused the second."""
    tree = {"algo": {}, "callbacks": [{"_target_": f"{name}.Thing"} for name in "abca"]}
    with pytest.raises(CheckpointError, match=r"a\.Thing.*type trust=\[[a-z,]+\]\.$") as refused:
        gate(tree, FILE, trust=trust)
    named = str(refused.value).partition("trust=[")[2].rstrip("].").split(",")
    assert sorted(named) == sorted({*trust, *"abc"})
    gate(tree, FILE, trust=named)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"maker": "rltrain.env.trading:StockTradingEnv"}, r"type trust=\[rltrain\]\.$"),
        (
            {"_target_": "rltrain.env.trading.Prices"},
            r"is not a choice of env, so it is not built\.$",
        ),
        ({"id": "mine/Row-v0"}, r"registers\. If yours does, type env\.id=PACKAGE:mine/Row-v0 for"),
        ({"id": "mine.rows:Row-v0"}, r"the module mine\.rows .*type trust=\[mine\]\.$"),
        ({"maker": "__main__:Row"}, r"pass it again"),
    ],
)
def test_each_refusal_says_what_to_type_if_anything_helps(part, said):
    env = {"_target_": "rltrain.env.gymnasium_env", **part}
    with pytest.raises(CheckpointError, match=said):
        gate({"env": env}, FILE)


def test_values_that_are_typed_again_are_read_as_they_were():
    """Defect: env.opponents../old=1 was printed for pasting, and could not be read."""
    values = {
        ("env", "opponents", "./old"): 1,
        ("env", "opponents", "../runs/new.v2"): 0.5,
        ("logger", "wandb", "settings", "a.b", "c"): ["x y"],
        ("algo", "optimizer", "lr"): 0.1,
    }
    assert typed_leaves(parse(as_overrides(values))) == values
