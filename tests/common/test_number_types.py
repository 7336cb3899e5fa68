"""Ranges of numbers: what is not a number of a kind, or fits no machine, is refused."""

import pytest
from pydantic import TypeAdapter, ValidationError

from rltrain.common import number_types

WHOLE = ("Whole", "Seed", "Count", "Envs", "Threads")
FINITE = ("Real", "Positive", "NonNegative", "Probability", "Fraction")
NO_NUMBERS = (True, "1", None, [], float("nan"), float("inf"), -float("inf"))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name):
    kind = TypeAdapter(getattr(number_types, name))
    assert kind.validate_python(1e3) == 1000
    for value in (*NO_NUMBERS, 1.5, -1, 2**63, 10**400, 1e308):
        with pytest.raises(ValidationError):
            kind.validate_python(value)


@pytest.mark.parametrize("name", FINITE)
def test_finite_numbers(name):
    kind = TypeAdapter(getattr(number_types, name))
    assert kind.validate_python(1) == 1.0
    for value in (*NO_NUMBERS, 10**400):
        with pytest.raises(ValidationError):
            kind.validate_python(value)
