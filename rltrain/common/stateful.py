"""The state of parts of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rltrain.types import StateDict

Part = TypeVar("Part")


class Stateful:
    """A part of a run, which may have state: plain values, arrays and tensors."""

    def state_dict(self) -> StateDict:
        """State that changes while training; saved in checkpoints."""
        return {}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore what ``state_dict`` returned."""
        return


@contextmanager
def all_or_nothing(*parts: object) -> Iterator[None]:
    """Context that an exception leaves with the attributes of parts as they were before."""
    before = [dict(vars(part)) for part in parts]
    try:
        yield
    except BaseException:
        for part, attributes in zip(parts, before, strict=True):
            vars(part).update(attributes)
        raise


def named(parts: Sequence[Part]) -> list[tuple[str, Part]]:
    """Every part by its class and how many of that class came before."""
    names = [class_name(part) for part in parts]
    return [(f"{name}.{names[:i].count(name)}", parts[i]) for i, name in enumerate(names)]


def class_name(part: object) -> str:
    """The full name of its class."""
    return f"{type(part).__module__}.{type(part).__qualname__}"
