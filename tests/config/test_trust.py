"""Hostile nodes at every node of every choice's configuration, and of a sweep's file: refused."""

from pathlib import Path

import pytest

from benchmarks.faults.attacks import NODES, OVERRIDES
from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys, parse, pick, put, typed_leaves
from rltrain.config.trust import NOWHERE, as_overrides, gate, leave_out
from rltrain.errors import CheckpointError, NotTypedError, RltrainError, UsageError
from rltrain.mode.sweep.plan import SweepJob, SweepPlan
from rltrain.mode.sweep.saved import saved_jobs
from tests.marks import slow_except

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
    with pytest.raises(CheckpointError, match=r"type trust=\[[a-z,]+\]\.$") as refused:
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
        ({"id": "mine:Row-v0"}, r"type trust=\[mine\]\.$"),
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
