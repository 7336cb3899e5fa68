import pytest

from rltrain.common.schedule import exponential, linear, piecewise


@pytest.mark.parametrize(("at", "expected"), [(0, 1), (50, 0.75), (100, 0.5), (1000, 0.5)])
def test_linear_falls_to_its_end_and_stays(at, expected):
    assert linear(1.0, 0.5, 100, at) == expected


@pytest.mark.parametrize(("at", "expected"), [(0, 1), (10, 0.6), (20, 0.4), (10**6, 0.2)])
def test_exponential_goes_half_of_the_way_every_half_life(at, expected):
    assert exponential(1.0, 0.2, 10, at) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("at", "expected"), [(0, 3), (10, 3), (15, 2), (20, 1), (25, 5), (30, 9), (99, 9)]
)
def test_piecewise_goes_straight_between_its_points_and_is_flat_outside(at, expected):
    assert piecewise([[10, 3.0], [20, 1.0], [30, 9.0]], at) == expected


def test_piecewise_of_one_point_is_constant():
    assert [piecewise([[10, 3.0]], at) for at in (0, 10, 20)] == [3, 3, 3]


def test_piecewise_takes_points_between_whole_steps():
    assert piecewise([[0.5, 0.0], [1.5, 1.0]], 1) == 0.5
