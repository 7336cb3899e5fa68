"""A part that lacks something is refused in words; what it may leave out it is given."""

from typing import Annotated, Protocol

import pytest

from rltrain.common.conformance import conform
from rltrain.interfaces import optional


class Sized(Protocol):
    size: Annotated[int, "how much"]


class Thing(Sized, Protocol):
    name: str = "nameless"

    def work(self) -> int: ...

    def __call__(self) -> int: ...

    @optional
    def rest(self, hours: int) -> int:
        """Sleep."""
        return 2 * hours


class Whole:
    size = 3

    def work(self):
        return 1

    def __call__(self):
        return 2


def test_a_part_is_given_what_it_may_leave_out():
    part = conform(Whole(), Thing, "algo.thing")
    assert (part.name, part.rest(4)) == ("nameless", 8)


def test_what_a_part_has_stays():
    class Named(Whole):
        name = "its own"

        def rest(self, hours):
            return 0

    part = conform(Named(), Thing, "algo.thing")
    assert (part.name, part.rest(4)) == ("its own", 0)


def test_everything_missing_is_named_at_once():
    said = r"^object \(algo.thing\) lacks size \(how much\). Expected"
    with pytest.raises(ValueError, match=said):
        conform(object(), Sized, "algo.thing")
    with pytest.raises(ValueError, match=r"lacks size \(how much\); work; __call__: it cannot be"):
        conform(type("Empty", (), {})(), Thing, "algo.thing")


def test_an_attribute_of_the_wrong_type_is_named():
    part = Whole()
    part.size = "3"
    with pytest.raises(ValueError, match=r"a valid size \(how much\): expected int, got '3'"):
        conform(part, Thing, "algo.thing")


def test_a_part_that_takes_no_attributes_is_refused():
    class Slotted(Whole):
        __slots__ = ()

    class Closed:
        __slots__ = ("__call__", "size", "work")

    part = Closed()
    part.size, part.work = 1, print
    with pytest.raises(ValueError, match="lacks name, and it cannot be given one"):
        conform(part, Thing, "algo.thing")
