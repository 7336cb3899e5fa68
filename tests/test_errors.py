"""Errors and their exit codes."""

import pytest

from rltrain.errors import DivergedError, UsageError, exit_code_of


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("x"), 2), (DivergedError("x"), 5), (ValueError("x"), 1)]
)
def test_every_error_has_an_exit_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code
