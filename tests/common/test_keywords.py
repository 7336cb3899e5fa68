"""Dataclasses given to constructors field by field."""

import inspect
from dataclasses import dataclass
from typing import Any

import pytest

from rltrain.common.keywords import flat_keywords
from rltrain.common.number_types import Count
from rltrain.types import EnvSpec


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Count = 3
    height: int = 4


class Picture:
    @flat_keywords
    def __init__(self, *, name: str, size: Size, frame: bool = False) -> None:
        self.all: Any = (name, size, frame)


def test_fields_are_given_as_keywords() -> None:
    assert Picture(name="a").all == ("a", Size(), False)
    assert Picture(name="a", frame=True, height=7).all == ("a", Size(height=7), True)


def test_what_the_program_supplies_stays_whole() -> None:
    class Part:
        @flat_keywords
        def __init__(self, *, spec: EnvSpec, size: Size) -> None: ...

    assert list(inspect.signature(Part).parameters) == ["spec", "width", "height"]


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        Picture(name="a", depth=1)


def test_the_signature_lists_the_fields_with_types_and_defaults() -> None:
    found = inspect.signature(Picture).parameters
    assert (list(found), found["width"].default) == (["name", "width", "height", "frame"], 3)
    assert found["width"].annotation == Count
