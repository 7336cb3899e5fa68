"""Options of battles as settings of an environment."""

import pytest
from pydantic import TypeAdapter, ValidationError

from rltrain.battles.option_checks import Range
from rltrain.common.number_types import Count, Flag, NonNegative, Positive, Probability, Real
from rltrain.env.smac import Smacv2VectorEnv, SmacVectorEnv
from rltrain.env.smac.checked_keywords import NUMBERS


@pytest.mark.parametrize("env", [SmacVectorEnv, Smacv2VectorEnv])
def test_every_range_becomes_the_type_that_settings_are_checked_against(env):
    annotations = env.__init__.__annotations__
    metadata = [part for a in annotations.values() for part in getattr(a, "__metadata__", ())]
    assert not any(isinstance(part, Range) for part in metadata)
    assert annotations["step_mul"] == Count
    assert annotations["reward_sparse"] == Flag
    assert annotations["move_amount"] == Positive


@pytest.mark.parametrize(
    "value", [-1, 0, 1e-300, 0.5, 1, 1.5, 2, 2**63, 10**400, True, "1", None, float("nan")]
)
def test_both_refuse_the_same_numbers(value):
    for own, checked in NUMBERS.items():
        (limits,) = own.__metadata__
        try:
            TypeAdapter(checked).validate_python(value)
            allowed = True
        except ValidationError:
            allowed = False
        if not isinstance(value, bool) and checked != Flag:  # 0 and 1 of Python programs are flags
            assert limits.holds(value) is allowed, (checked, value)


def test_all_types_have_a_range():
    assert [*NUMBERS.values()] == [Count, Flag, NonNegative, Positive, Probability, Real]
