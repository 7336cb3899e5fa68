"""Which mode a command is carried out in."""

import re

import pytest

from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from rltrain.mode.dispatch import loaded


def test_the_clock_names_a_single_run():
    year = compose_checked(["name=t-${now:%Y}"]).settings().run.name
    assert re.fullmatch("t-2[0-9]{3}", year)


STEPS = {"1e3": 1000, "1_000": 1000, "best": "best", "null": None}
NO_STEPS = dict.fromkeys(("[5]", "{a: 5}", "-5", "1.5", "bset"), "expected a whole number")
NO_STEPS |= {"5,10": "takes one: type one of them", "all": "expected the env step of a checkpoint"}


@pytest.mark.parametrize("mode", ["evaluate", "watch", "push", "export", "import"])
def test_a_step_is_read_alike_in_every_mode_and_never_ignored(mode, own_folder):
    """Defect: the newest checkpoint was taken for several steps and for a list."""
    where = [f"mode={mode}", "checkpoint=demo/cartpole"]
    assert {each: loaded([*where, f"load_step={each}"])[1] for each in STEPS} == STEPS
    for typed, said in NO_STEPS.items():
        with pytest.raises(UsageError, match=said):
            loaded([*where, f"load_step={typed}"])
