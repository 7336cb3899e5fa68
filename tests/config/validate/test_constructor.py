"""What a constructor takes is read from a file that says what the class says."""

from __future__ import annotations

import ast
import re
from typing import Literal

import pytest

from docs.signatures import GIVEN, shipped, written
from rltrain.common.imports import locate
from rltrain.common.number_types import Count, Flag
from rltrain.config.validate import constructor
from rltrain.config.validate.constructor import find_constructor, read_constructor
from rltrain.errors import UsageError


def test_the_file_is_current():
    saved = constructor.FILE.read_text(encoding="utf-8")
    assert saved == written(), "signatures were edited: type python docs/signatures.py"


def test_what_is_read_is_what_the_class_says():
    for target in shipped():
        read, imported = constructor.from_file(target), read_constructor(locate(target))
        expected = {k: repr(v) for k, v in imported.annotations.items() if k not in GIVEN}
        found = {k: repr(v) for k, v in read.annotations.items() if k not in GIVEN}
        assert found == expected, target
        assert list(read.annotations) == list(imported.annotations), target
        assert read.defaults == imported.defaults, target
        # torch.nn.Module has a constructor that takes anything and refuses it when it is called
        assert read.free == (imported.free and target != "rltrain.algo.Scalar"), target


@pytest.mark.parametrize("module", sorted(constructor._saved()["modules"]))
def test_every_line_of_a_signature_counts(module):
    text = (constructor.PACKAGE / module).read_text(encoding="utf-8")
    counted, lines = {*constructor.WRITTEN.findall(text)}, text.splitlines()
    for node in ast.walk(ast.parse(text)):
        parts = []
        if isinstance(node, ast.ClassDef):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            parts = [part for each in fields for part in (each.annotation, each.value)]
        elif isinstance(node, ast.FunctionDef):
            every = [*node.args.args, *node.args.kwonlyargs]
            parts = [*node.args.defaults, *node.args.kw_defaults, *(a.annotation for a in every)]
        for part in filter(None, parts):
            for line in lines[part.lineno - 1 : part.end_lineno]:
                assert line in counted or line.strip() in ("]", "],", "| None,"), line


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        ("return q.sum(-1)", False),
        ("embed_dim: Count = 32,", True),
        ("def __init__(self, *, layers: Count) -> None:", True),
    ],
)
def test_a_module_whose_signatures_were_edited_is_imported(monkeypatch, tmp_path, body, edited):
    target, module = "rltrain.algo.Sum", "algo/mixer/sum.py"
    text = (constructor.PACKAGE / module).read_text(encoding="utf-8")
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text(f"{text}\n        {body}\n", encoding="utf-8")
    monkeypatch.setattr(constructor, "PACKAGE", tmp_path)
    for cached in (constructor.from_file, constructor.digest):
        cached.cache_clear()
    assert (constructor.from_file(target) is None) == edited
    assert {*find_constructor(target).annotations} == {"spec"}
    for cached in (constructor.from_file, constructor.digest):
        cached.cache_clear()


@pytest.mark.parametrize("target", ["tests.helpers.Failing", "rltrain.algo.NoSuchThing", "rltrain"])
def test_what_is_not_shipped_is_not_in_the_file(target):
    assert constructor.from_file(target) is None


def test_what_is_not_in_the_file_is_imported():
    assert find_constructor("fractions.Fraction").annotations
    with pytest.raises(UsageError, match="NoSuchThing"):
        find_constructor("rltrain.algo.NoSuchThing")


@pytest.mark.parametrize("target", ["builtins.dict", "builtins.int", "collections.OrderedDict"])
def test_what_has_no_signature_is_refused(target):
    with pytest.raises(UsageError, match="is compiled and has no signature to read"):
        find_constructor(target)


def test_the_file_names_ranges_by_their_names():
    text = constructor.FILE.read_text(encoding="utf-8")
    assert '"Probability"' in text
    assert not re.search("BeforeValidator|object at", text)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Literal["a", "b"], "one of a, b"),
        (Count | Literal["auto"], "a whole number, 1 or more, or auto"),
        (Count | None, "a whole number, 1 or more, or null"),
        (Flag | None, "true or false or null"),
    ],
)
def test_annotations_in_words(annotation, words):
    assert constructor.expected(annotation) == words
