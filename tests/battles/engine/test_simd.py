"""Whom the comparison of eight units at a time finds."""

import numpy as np
import pytest

from rltrain.battles.engine.simd import WIDTH, lowest, njit, units_near
from rltrain.battles.engine.world import U


@njit()
def near(unit, start, end, x, y, reach2):  # type: ignore[no-untyped-def]
    return units_near(unit, start, end, x, y, reach2)


@njit()
def first(bits):  # type: ignore[no-untyped-def]
    return lowest(bits)


def table(units: int) -> np.ndarray:
    """Living units 0, 1, 2 … at x = 0, 1, 2 …, y = 0."""
    unit = np.zeros((len(U), units), np.float32)
    unit[U.X], unit[U.HEALTH] = np.arange(units), 1
    return unit


def test_reach_is_inclusive() -> None:
    unit = table(8)
    assert near(unit, 0, 8, np.float32(2), np.float32(0), np.float32(1)) == 0b00001110
    below = np.nextafter(np.float32(1), np.float32(0))
    assert near(unit, 0, 8, np.float32(2), np.float32(0), below) == 0b00000100


def test_dead_units_are_not_near() -> None:
    unit = table(8)
    unit[U.HEALTH, [1, 3]] = 0
    assert near(unit, 0, 8, np.float32(2), np.float32(0), np.float32(4)) == 0b00010101


@pytest.mark.parametrize(("end", "expected"), [(4, 1), (6, 0b111), (11, 0xFF), (12, 0xFF)])
def test_at_most_eight_units_and_none_from_the_end_on(end: int, expected: int) -> None:
    bits = near(table(12), 3, end, np.float32(0), np.float32(0), np.float32(1000))
    assert bits == expected


@pytest.mark.parametrize("units", [1, 3, 8, 9, 66])
def test_agrees_with_a_scalar_search(units: int) -> None:
    rng = np.random.default_rng(units)
    unit = rng.normal(size=(len(U), units)).astype(np.float32)
    x, y, reach2 = rng.random(3, np.float32)
    d2 = (unit[U.X] - x) ** 2 + (unit[U.Y] - y) ** 2
    expected = (d2 <= reach2) & (unit[U.HEALTH] > 0)
    for start in range(0, units, WIDTH):
        bits = near(unit, start, units, x, y, reach2)
        found = [bits >> k & 1 for k in range(min(WIDTH, units - start))]
        assert found == expected[start : start + WIDTH].tolist()


@pytest.mark.parametrize("bit", [0, 1, 7, 63])
def test_lowest_bit(bit: int) -> None:
    assert first(np.int64(-1) << np.int64(bit)) == bit
