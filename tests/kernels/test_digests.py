"""Digests of plain code: every edit is noticed and named, a changed docstring is not."""

import ast
import importlib
import inspect
import random
import re
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

import rltrain
from rltrain.algo import targets
from rltrain.kernels import digests
from rltrain.kernels.table import COUNTERPARTS
from tests.kernels.edits import edited, n_edits
from tests.marks import slow_except

PACKAGE = Path(rltrain.__file__).parent
KNOWN: dict[str, dict[str, str]] = {}
TWINS: dict[str, list[str]] = {}
for known_place, (known_digest, *known_twins) in digests.known().items():
    names = KNOWN.setdefault(digests.source_file(known_place), {})
    names[known_place.partition(":")[2]] = known_digest
    for known_twin in known_twins:
        TWINS.setdefault(known_twin, []).append(known_place)
PLACES = sorted({place for places in TWINS.values() for place in places})
ROWS = [row for rows in COUNTERPARTS.values() for row in rows]
NAMES = [(file, name) for file, names in KNOWN.items() for name in names]
COMMAND = (
    "Plain code was changed that compiled code computes instead. Change the kernel that the line "
    "'# twin: …' above it names in the same way, run the test that compares the two "
    "(tests/kernels), then: python -m rltrain.kernels.digests"
)
CALLED_BY_KERNELS = {
    "algo.return_settings:Returns": "its settings are read, two of its methods doubled",
    "algo.normalization:RunningNorm": "networks with it are left to PyTorch",
    "algo.network.head:initialize_orthogonally": "of initial weights only",
    "algo.network.packing:unroll_warmed_up": "windows that warm up are left to PyTorch",
    "algo.network.distribution:Distribution": "a protocol",
    "algo.exploration.interface:Exploration": "the base class, whose choose() is overridden",
    "algo.mixer.sum:need_team_reward": "a check",
    "algo.mixer.qmix:need_team_state": "a check",
    "algo.mixer.qmix:two_layers": "the layers that it makes are looked at",
    "algo.optimizer:_checked": "a check",
    "algo.optimizer:_tensor": "of saved states",
    "algo.optimizer:_option": "of saved states",
    "algo.checks:require_result": "a check",
    "algo.checks:stacked_shape": "of a check",
    "algo.checks:_length_and_width": "of a check",
    "algo.checks:described": "of the message of a check",
    "algo.checks:_name": "of the message of a check",
    "algo.own_checks:require_actions": "a check of the user's own explorations",
    "algo.exploration.interface:AgentNoise": "a protocol",
    "algo.network.head:perceptron": "the layers that it makes are looked at",
    "algo.network.head:draw_levels": "called by the kernels",
    "algo.targets:rescale": "rescaled values are left to PyTorch",
    "algo.targets:unscale": "rescaled values are left to PyTorch",
    "algo.network.head:Head": "a part of the network, with a row of its own",
    "algo.network.head:values": "of heads, which recurrent counterparts do not have",
    "algo.network.distribution:Scalar": "a part of the network, with a row of its own",
    "algo.network.agent_input:PictureInput": "a part of the network, with a row of its own",
    "algo.network.agent_input:ActionAndAgent": "a part of the network, with a row of its own",
    "algo.network.agent_input:AgentInput": "a part of the network, with a row of its own",
    "algo.network.packing:PackedGRU": "a part of the network, with a row of its own",
    "algo.cpu_math:one_thread": "number of threads, not what they compute",
    "algo.cpu_math:flushed_denormals": "called by the kernels",
    "algo.flat_parameters:FlatParameters": "used by both",
    "algo.targets:lambda_return": "λ-returns of feed-forward agents are left to PyTorch",
    "algo.loss.distributional:Bootstrap": "three tensors",
    "algo.network.packing:Packing": "of whole windows, in the row of the loss",
    "algo.network.packing:zero_outside": "of whole windows, in the row of the loss",
    "types:Batch": "its fields are read, two of its properties doubled",
}


def source_of(file):
    return (PACKAGE.parent / file).read_text()


def test_digests_are_those_of_the_code():
    found = {place: text.split() for place, text in digests.current().items()}
    assert found == digests.known(), COMMAND


@pytest.mark.parametrize("place", slow_except(NAMES[::5], NAMES), ids=lambda place: place[1])
def test_an_edit_is_noticed_and_named(place):
    """One edit of every function, drawn with a fixed seed."""
    file, name = place
    source = source_of(file)
    n = n_edits(source, name)
    number = random.Random(name).randrange(n) if n else None
    require_noticed(edited(source, name, number), file, name)


@pytest.mark.slow
@pytest.mark.parametrize("file", KNOWN)
def test_every_edit_is_noticed_and_named(file):
    source = source_of(file)
    for name in KNOWN[file]:
        for number in [None, *range(n_edits(source, name))]:
            require_noticed(edited(source, name, number), file, name)


def require_noticed(text, file, name):
    codes = digests.parsed.__wrapped__(text, file)
    changed = [n for n, digest in KNOWN[file].items() if codes[n].digest != digest]
    assert changed == [name], text


@pytest.mark.parametrize("file", KNOWN)
def test_docstrings_comments_annotations_and_positions_are_no_edits(file):
    tree = ast.parse(source_of(file))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if ast.get_docstring(node) is not None:
                node.body[0].value.value = "Another docstring."
            else:
                node.body.insert(0, ast.parse("'A docstring.'").body[0])
        if isinstance(node, ast.FunctionDef):
            node.returns = ast.Name("Any", ast.Load())
    codes = digests.parsed.__wrapped__("# a comment\n\n" + ast.unparse(tree), file)
    assert {name: codes[name].digest for name in KNOWN[file]} == KNOWN[file]


@pytest.mark.parametrize(
    ("source", "other"),
    [
        ("from a import f\ndef g(): return f()", "from b import f\ndef g(): return f()"),
        ("X = 1\ndef g(): return X", "X = 2\ndef g(): return X"),
        ("def g(x=1): return x", "def g(x=2): return x"),
        ("@a\ndef g(): pass", "@b\ndef g(): pass"),
        (
            "def g(x):\n  def h(): return 1\n  return h",
            "def g(x):\n  def h(): return 2\n  return h",
        ),
        ("class g(A):\n  x = 1", "class g(B):\n  x = 1"),
        ("class g(A):\n  x = 1", "class g(A):\n  x = 1\n  def f(self): return 1"),
        ("def g(): return (1, None)", "def g(): return (None, 1)"),
        ("def g(x): return x[1:]", "def g(x): return x[:1]"),
        ("def g(): return ''", "def g(): return None"),
        ("def g(*, a, b=1): pass", "def g(*, a=1, b): pass"),
    ],
)
def test_what_code_names_belongs_to_it(source, other):
    one, two = (digests.parsed(text, "x.py")["g"].digest for text in (source, other))
    assert one != two


def test_nothing_that_doubled_code_calls_is_missing_in_the_table():
    """Every function and class of ``rltrain.algo`` that it names is doubled as well, or listed."""
    missing = set()
    for plain in ({place for twin in row.twins for place in TWINS[twin]} for row in ROWS):
        for place in plain:
            module_name, _, name = place.partition(":")
            module = importlib.import_module(f"rltrain.{module_name}")
            tree = ast.parse(Path(module.__file__).read_text())
            node = tree
            for part in name.split("."):
                node = next(n for n in node.body if getattr(n, "name", None) == part)
            for word in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
                value = vars(module).get(word)
                if not inspect.isclass(value) and not inspect.isfunction(value):
                    continue
                there = f"{value.__module__.removeprefix('rltrain.')}:{value.__name__}"
                if there.startswith("algo.") and there not in plain:
                    missing.add(there)
    assert missing - CALLED_BY_KERNELS.keys() == set()


def test_rows_of_the_table_and_comments_name_what_there_is():
    for kind, rows in COUNTERPARTS.items():
        for row in rows:
            assert callable(getattr(resolve_name(f"rltrain.{kind}"), row.method))
            assert callable(resolve_name(f"rltrain.kernels.{row.make}"))
    assert {twin for row in ROWS for twin in row.twins} == set(TWINS)
    for kernel in TWINS:
        assert (PACKAGE / "kernels" / kernel).is_file()
    lines = [re.findall(r"^ *# twin: ", path.read_text(), re.M) for path in PACKAGE.rglob("*.py")]
    assert sum(map(len, lines)) == len(PLACES)


FUNCTIONS = [
    place for place in PLACES if place.split(":")[1][0].islower() or "." in place.split(":")[1]
]


@pytest.mark.parametrize("place", FUNCTIONS)
def test_a_function_that_is_replaced_in_memory_is_noticed(place, monkeypatch):
    module = importlib.import_module(f"rltrain.{place.partition(':')[0]}")
    name = place.partition(":")[2]
    assert digests.changed(place) == []
    owner = getattr(module, name.partition(".")[0]) if "." in name else module
    before = inspect.getattr_static(owner, name.rpartition(".")[2])
    if callable(before):
        import functools

        monkeypatch.setattr(owner, name.rpartition(".")[2], functools.wraps(before)(lambda *x: 0))
    else:
        monkeypatch.setattr(owner, name.rpartition(".")[2], property(lambda self: 0))
    assert digests.changed(place) == [f"{digests.source_file(place)}: {name} was changed"]
    monkeypatch.undo()
    assert digests.changed(place) == []


def test_methods_of_classes_and_imported_names_that_are_replaced_are_noticed(monkeypatch):
    from rltrain.algo.loss import td
    from rltrain.algo.mixer.qmix import QMix

    monkeypatch.setattr(QMix, "forward", lambda *x: x)
    (said,) = digests.changed("algo.mixer.qmix:QMix")
    assert said == "rltrain/algo/mixer/qmix.py: QMix.forward was changed"
    monkeypatch.setattr(td, "huber", lambda error, delta: error)
    (said,) = digests.changed("algo.loss.td:td_result")
    assert said == "rltrain/algo/loss/td.py: td_result was changed"


def test_without_source_nothing_is_changed(monkeypatch):
    module = importlib.import_module("rltrain.algo.targets")
    monkeypatch.setattr(module, "__file__", "/no/such/file.pyc")
    assert digests.changed("algo.targets:pick") == []


def test_an_array_that_was_replaced_is_a_change(monkeypatch):
    """Defect: NumPy's comparison of the two raised ValueError in training."""
    monkeypatch.setattr(targets, "TABLE", np.zeros(3), raising=False)
    monkeypatch.setattr(digests, "_seen", {targets: {**vars(targets)}})
    assert digests.seen_again()
    monkeypatch.setattr(targets, "TABLE", np.zeros(3))
    assert not digests.seen_again()
