"""Ranges of numbers: what is not a number of a kind, or fits no machine, is refused."""

import pytest
from pydantic import TypeAdapter, ValidationError

from rltrain.common import number_types

NO_NUMBERS = (True, "1", None, [], float("nan"), float("inf"), -float("inf"))
WHOLE = ("Whole", "Count", "Envs", "Threads"), (1e3, 1.5, -1, 2**63, 1e308)
FINITE = ("Real", "Positive", "NonNegative", "Probability", "Fraction"), (1,)


@pytest.mark.parametrize(
    ("name", "values"), [(name, values) for names, values in (WHOLE, FINITE) for name in names]
)
def test_the_first_value_is_a_number_of_the_kind_and_no_other(name, values):
    kind = TypeAdapter(getattr(number_types, name))
    assert kind.validate_python(values[0]) == values[0]
    for value in (*NO_NUMBERS, 10**400, *values[1:]):
        with pytest.raises(ValidationError):
            kind.validate_python(value)
