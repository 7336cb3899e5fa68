"""Errors and their exit codes."""

import pytest

from rltrain.errors import DivergedError, UsageError, closest, exit_code_of


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("x"), 2), (DivergedError("x"), 5), (ValueError("x"), 1)]
)
def test_every_error_has_an_exit_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize(
    ("name", "near"),
    [("QMIX", "qmix"), ("q_mix", "qmix"), ("qmx", "qmix"), ("qimx", "qmix"), ("qmixx", "qmix")],
)
def test_closest_name(name: str, near: str) -> None:
    assert closest(name, ["vdn", "qmix", "iql"]) == [near]
    assert closest("xyzzy", ["vdn", "qmix", "iql"]) == []
