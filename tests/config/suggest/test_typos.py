"""A key with one letter wrong is answered with the right one, whatever value is typed for it."""

import random

import pytest

from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys
from rltrain.errors import one_edit
from tests.config.suggest.test_hints import DQN, QMIX, refusal, refused
from tests.config.suggest.test_keys import typos

VALUES = ("1", "-1", "x", "0.5", "true", "null", "[1,2]", "{a: 1}", "")


def mistyped():
    """Every key with an edit of each kind, with its own value or another."""
    rng = random.Random(0)
    for base in (DQN, QMIX):
        known = flat_keys(compose_checked(base).plain)
        names = {*known, *(group.replace("/", ".") for group in SHIPPED.groups)}
        for key, value in known.items():
            own = [] if value is None or isinstance(value, dict) else [str(value)]
            for typo in (typo for typo in typos(key, rng) if typo not in names):
                near = [name for name in names if one_edit(typo, name)]
                if near == [key] and "" not in typo.split("."):
                    yield base, key, f"{typo}={rng.choice([*own, *VALUES])}"


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_a_key_with_one_letter_wrong_is_answered_with_the_right_one(every):
    tried, wrong = [*mistyped()][::every], []
    for base, key, word in tried:
        named = {key, key.replace(".", "/")}
        if not any(name in refusal([*base, word]) for name in named) or [*refused(base, word)]:
            wrong.append(word)
    assert len(tried) > 1400 / every
    assert not wrong
