import pytest

from rltrain.schedule import linear


@pytest.mark.parametrize(("at", "expected"), [(0, 1), (50, 0.75), (100, 0.5), (1000, 0.5)])
def test_linear_falls_to_its_end_and_stays(at, expected):
    assert linear(1.0, 0.5, 100, at) == expected
