"""Errors and their exit codes."""

import errno
import re

import numpy as np
import pytest
import torch
from pydantic_core import ValidationError

import rltrain
from rltrain import errors
from rltrain import main as entry
from rltrain.callback import Callback
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys
from tests.env.scripted import Plain


def test_every_error_has_an_exit_code() -> None:
    codes = {kind.__name__: kind.exit_code for kind in errors.RltrainError.__subclasses__()}
    stored = dict.fromkeys(("CheckpointError", "DatasetError"), 3)
    others = {"UsageError": 2, "StorageError": 1, "EnvError": 4, "DivergedError": 5}
    assert codes == {**stored, **others}
    raised = errors.UsageError("x"), errors.DivergedError("x"), ValueError("x")
    assert [errors.find_exit_code(error) for error in raised] == [2, 5, 1]


MISSING = {
    2: """mode=report runs=nowhere; mode=match checkpoints=[nowhere,builtin]
        ; algo=dqn env=cartpole dataset.read=nowhere; algo=qmix env=smac env.opponent=nowhere""",
    3: """resume=nowhere; config=nowhere; algo=dqn env=cartpole checkpoint=nowhere
        ; mode=evaluate checkpoint=nowhere; mode=push hub.repo=a/b checkpoint=nowhere""",
}
"""Commands by the exit code that docs/runs.md gives for what is missing."""


@pytest.mark.parametrize(
    ("typed", "code"), [(typed, code) for code in MISSING for typed in MISSING[code].split(";")]
)
def test_what_is_missing_has_the_exit_code_of_the_table(typed, code, own_folder):
    with pytest.raises(errors.RltrainError) as raised:
        entry.run(typed.split())
    assert raised.value.exit_code == code
    assert "nowhere" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "near"),
    [("QMIX", "qmix"), ("q_mix", "qmix"), ("qmx", "qmix"), ("qimx", "qmix"), ("qmixx", "qmix")],
)
def test_closest_name(name: str, near: str) -> None:
    assert errors.closest(name, ["vdn", "qmix", "iql"]) == [near]
    assert errors.closest("xyzzy", ["vdn", "qmix", "iql"]) == []


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
        (ValidationError.from_exception_data("", []), "ValidationError: 0 validation errors for"),
        (SystemExit(3), "SystemExit: 3 (it would have ended the program)"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_reason_is_the_type_and_what_can_be_printed(error: BaseException, said: str) -> None:
    assert errors.reason(error) == said
    assert errors.failure(error) == said.removesuffix(" (it would have ended the program)")


SETTINGS = (
    "algo=rainbow env=cartpole",
    "algo=qmix env=smac hardware=ray",
    "algo=iqn env=stag_hunt algo/exploration=boltzmann hardware=ddp",
)


@pytest.mark.parametrize("base", SETTINGS)
@pytest.mark.parametrize("number", ["1e39", "-1e39"])
def test_a_number_that_is_too_large_for_single_precision_is_refused_when_checked(base, number):
    keys = flat_keys(compose_checked(base.split()).plain).items()
    reals = [key for key, value in keys if isinstance(value, float)]
    assert len(reals) > 5
    for key in reals:
        with pytest.raises(errors.UsageError) as refused:
            compose_checked([*base.split(), f"{key}={number}"]).settings()
        said = str(refused.value)
        assert said.startswith(f"{key}={float(number):g}: expected ")
        assert re.search(r"3e\+?38|(up to|from 0 to|below) 1,", said)


LACKS_MEMORY = [
    MemoryError(),
    MemoryError("Unable to allocate 7.11 PiB for an array with shape (1000000000000000,)"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.11 PiB"),
]
TOO_LARGE = [
    RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904]"),
    RuntimeError("value cannot be converted to type float without overflow"),
    RuntimeError("IntArrayRef contains an int that cannot be represented as a SymInt: 2"),
    TypeError("empty(): argument 'size' failed to unpack: Overflow when unpacking long long"),
]
LACKS_NONE = [
    *TOO_LARGE,
    RuntimeError("unsupported memory format option Contiguous"),
    OverflowError("Python int too large to convert to C long"),
    OSError(errno.ENOSPC, "No space left on device"),
    ValueError("allocate memory"),
]


def raised(make):
    """The error of more memory than there is."""
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        make(10**15)
    return caught.value


MEMORY = r"(?s)There is not enough memory \(.*\)\. Lower .*hardware\.n_envs, algo\.batch_size"


@pytest.mark.parametrize("error", [*LACKS_MEMORY, raised(torch.empty), raised(np.empty)], ids=repr)
def test_every_lack_of_memory_is_answered_alike(error, small, monkeypatch, own_folder):
    """While a run is built, while it learns, and in any other command."""
    with pytest.raises(errors.UsageError, match=MEMORY), errors.usage_errors():
        raise error

    def fail(*given, **named):
        raise error

    monkeypatch.setattr("rltrain.trainer.Trainer.run", fail)
    with pytest.raises(RuntimeError, match=MEMORY):
        rltrain.train(small)
    monkeypatch.setattr("rltrain.mode.dispatch.new_mode", fail)
    with pytest.raises(errors.RltrainError, match=MEMORY):
        entry.run(["env=two_step"])


class Runs(Plain):
    """One agent; a method of the class may be replaced by one that fails."""

    reward, length = 0.0, None


@pytest.mark.parametrize("method", ["reset", "step"])
@pytest.mark.parametrize("error", LACKS_MEMORY, ids=repr)
def test_a_lack_of_memory_within_an_environment_names_the_environment_as_well(
    error, method, single, monkeypatch
):
    def fail(*given, **named):
        raise type(error)(*error.args)

    single = [word for word in single if not word.startswith("env=")]
    trainer = rltrain.make_trainer(["algo=dqn", *single, "algo.learning_starts=64"], env=Runs)
    monkeypatch.setattr(Runs, method, fail)
    with pytest.raises(type(error)) as raised:
        trainer.train()
    trainer.close()
    assert errors.find_exit_code(raised.value) == 1
    with pytest.raises(errors.RltrainError, match=MEMORY) as said, errors.memory_errors():
        raise raised.value
    assert re.search(r"\(the environment itself may take it: Runs at step \d", str(said.value))


@pytest.mark.parametrize("error", TOO_LARGE, ids=repr)
def test_a_number_that_pytorch_cannot_have_is_too_large(error):
    with pytest.raises(errors.UsageError, match="is too large"), errors.usage_errors():
        raise error


@pytest.mark.parametrize("error", LACKS_NONE, ids=repr)
def test_other_errors_are_no_lack_of_memory(error):
    with (
        pytest.raises((errors.UsageError, type(error)), match=r"^(?!There is not enough)"),
        errors.usage_errors(),
    ):
        raise error


@pytest.mark.parametrize("hook", ["on_iteration", "on_save", "on_collect", "on_log"])
def test_an_exception_of_a_hook_is_named_although_a_generator_replaces_it(hook, single, tmp_path):
    """Defect: StopIteration became "generator raised StopIteration", without the hook."""

    def stop(trainer, value=None):
        return next(iter(()))

    callback = Callback()
    setattr(callback, hook, stop)
    with pytest.raises(RuntimeError, match=rf"failed: StopIteration .*{hook}"):
        rltrain.train([*single, f"hydra.run.dir={tmp_path / 'run'}"], callbacks=[callback])
