"""The fixtures of battles."""

from tests.battles.conftest import battle, make, scenario

__all__ = ["battle", "make", "scenario"]
