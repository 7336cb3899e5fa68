"""The learner is compiled in another process where that is of use, and waited for."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from rltrain import kernels
from rltrain.algo.loss.distributional import CategoricalLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.network.distribution import Categorical
from rltrain.common.progress import COMPILING, compiling
from rltrain.kernels import compilation
from tests.algo.batches import make_model

RETURNS = {"gamma": 1.0, "double": True, "n_step": 1}
ATOMS = Categorical(atoms=2, v_min=0.0, v_max=1.0)


class Process:
    """One that is over when it is waited for."""

    begun: ClassVar[list[list[str]]] = []
    activities: ClassVar[list[str]] = []

    def __init__(self, command, **streams):
        self.begun.append(command)

    def kill(self):
        """At the end of the program."""

    def wait(self):
        self.activities.append(str(compiling.activity))


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # which macOS does not have
    monkeypatch.setattr(compilation, "_begun", {})
    Process.begun.clear()
    Process.activities.clear()


def kernel(folder):
    return SimpleNamespace(
        py_func=test_what_is_not_compiled_is_begun_once_and_waited_for_once,
        stats=SimpleNamespace(cache_path=folder and str(folder)),
    )


def test_it_is_ended_with_the_program(tmp_path, monkeypatch):
    """Defect: after Ctrl-C it compiled on for a minute."""
    ends = []
    monkeypatch.setattr(compilation.atexit, "register", ends.append)
    compilation.compile_ahead("sequence_step", kernel(tmp_path))
    assert compilation._begun["sequence_step"].kill in ends


def test_what_is_not_compiled_is_begun_once_and_waited_for_once(tmp_path):
    for _ in range(2):
        compilation.compile_ahead("sequence_step", kernel(tmp_path))
    assert Process.begun == [[sys.executable, "-m", "rltrain.kernels", "sequence_step"]]
    for _ in range(2):
        compilation.wait("sequence_step")
    assert Process.activities == [COMPILING]


def test_nothing_is_begun_that_is_compiled_or_is_not_shared_or_with_one_core(tmp_path, monkeypatch):
    name = kernel(tmp_path).py_func.__qualname__
    (tmp_path / f"test_compilation.{name}-1.py311.1.nbc").touch()
    compilation.compile_ahead("sequence_step", kernel(tmp_path))
    compilation.compile_ahead("sequence_step", kernel(None))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    compilation.compile_ahead("sequence_step", kernel(tmp_path / "empty"))
    compilation.wait("sequence_step")
    assert Process.begun == []


@pytest.mark.parametrize(
    ("loss", "network", "mixer", "begun"),
    [
        (TDLoss(**RETURNS), "mlp", "independent", ["td_step"]),
        (TDLoss(**RETURNS), "gru", "qmix", ["sequence_step"]),
        (CategoricalLoss(distribution=ATOMS, **RETURNS), "mlp", "independent", []),
    ],
)
def test_the_step_of_values_is_compiled_ahead(loss, network, mixer, begun, monkeypatch):
    names = []
    monkeypatch.setattr(compilation, "compile_ahead", lambda name, kernel: names.append(name))
    distribution = {"distribution": ATOMS} if begun == [] else {}
    model = make_model(network, mixer, last_action=False, agent_id=False, **distribution)
    assert kernels.compile_loss(loss, model) is not loss
    assert names == begun
