"""Errors and their exit codes."""

import numpy as np
import pytest
import torch

import rltrain
from rltrain.errors import DivergedError, UsageError, closest, exit_code_of, reason


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


class Mute:
    """An object that cannot be compared or printed."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __str__(self) -> str:
        raise RuntimeError("not printable")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("x"), "ValueError: x"),
        (ValueError(), "ValueError"),
        (AssertionError(None), "AssertionError"),
        (AssertionError(None, 1), "AssertionError: (None, 1)"),
        (AssertionError(np.array([1, 2])), "AssertionError: [1 2]"),
        (AssertionError(torch.tensor([1, 2])), "AssertionError: tensor([1, 2])"),
        (AssertionError(np.array(["a"]), 2), "AssertionError: (array(['a'], dtype='<U1'), 2)"),
        (AssertionError(Mute()), "AssertionError"),
        (KeyError(Mute(), 1), "KeyError"),
        (SystemExit(3), "SystemExit: 3 (it would have ended the program)"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_reason_is_the_type_and_what_can_be_printed(error: BaseException, said: str) -> None:
    assert reason(error) == said


@pytest.mark.parametrize("key", ["algo.distribution.v_max=1e39", "algo.network.noisy_sigma=1e300"])
def test_a_number_that_is_too_large_is_no_lack_of_memory(key, tmp_path):
    with pytest.raises(UsageError, match="too large for single precision"):
        rltrain.make_trainer(["algo=rainbow", "env=cartpole", key], tmp_path)
