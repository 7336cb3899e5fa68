"""What a constructor takes is read from its source as Python would read it from the class."""

import re

import pytest

from rltrain.common.imports import locate
from rltrain.config.catalog import conf_dir
from rltrain.config.schema import FACTS
from rltrain.config.validate.constructor import constructor_at, constructor_of
from rltrain.config.validate.signature import UnreadableError, read_arguments
from rltrain.errors import UsageError

GIVEN = {name for names in FACTS.values() for name in names}
SHIPPED = sorted(
    {
        target
        for file in conf_dir().rglob("*.yaml")
        for target in re.findall(r"_target_: *(\S+)", file.read_text(encoding="utf-8"))
    }
)


def test_what_is_read_is_what_the_class_says():
    for target in SHIPPED:
        read, imported = read_arguments(target, 0, GIVEN), constructor_of(locate(target))
        said = {k: repr(v) for k, v in imported.annotations.items() if k not in GIVEN}
        assert {k: repr(v) for k, v in read.annotations.items()} == said, target
        defaults = {k: v for k, v in imported.defaults.items() if k not in GIVEN}
        assert read.defaults == defaults, target
        # torch.nn.Module has a constructor that takes anything and refuses it when it is called
        assert read.free == (imported.free and target != "rltrain.algo.Scalar"), target


@pytest.mark.parametrize(
    "target",
    ["tests.helpers.Failing", "rltrain.algo.NoSuchThing", "rltrain.nowhere.Thing", "rltrain"],
)
def test_what_is_not_rltrains_own_cannot_be_read(target):
    with pytest.raises(UnreadableError):
        read_arguments(target, 0, GIVEN)


def test_what_cannot_be_read_is_imported():
    assert constructor_at("collections.OrderedDict").free
    with pytest.raises(UsageError, match="NoSuchThing"):
        constructor_at("rltrain.algo.NoSuchThing")
