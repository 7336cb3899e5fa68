"""Cores and GPUs divided among the jobs of a sweep."""

import pytest
import torch

from rltrain.config.compose import compose_checked
from rltrain.mode.sweep import processes as room
from rltrain.mode.sweep.processes import shares


def settings(n, *overrides):
    return [compose_checked(["env=two_step", *overrides]).settings()] * n


@pytest.mark.parametrize(
    ("cores", "jobs", "typed", "at_once", "threads"),
    [
        (4, "auto", [], 4, ["hardware.threads=1"]),  # recurrent agents take 2 by themselves
        (16, "auto", [], 6, []),
        (4, "auto", ["hardware.threads=2"], 2, []),
        (2, "auto", ["hardware.threads=3"], 1, []),
        (2, 6, [], 6, ["hardware.threads=1"]),
        (16, 100, [], 6, []),
    ],
)
def test_cores_are_divided(monkeypatch, cores, jobs, typed, at_once, threads):
    monkeypatch.setattr(room, "available_cores", lambda: cores)
    share = shares(jobs, settings(6, "hardware=cpu", *typed))
    assert (share.at_once, share.gpus) == (at_once, ())
    assert share.overrides(settings(1, "hardware=cpu", *typed)[0]) == threads
    assert share.environment(0) == {}


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [(None, ("0", "1")), ("3, 5", ("3", "5")), ("GPU-a,GPU-b", ("GPU-a", "GPU-b"))],
)
def test_gpus_are_taken_in_turn(monkeypatch, visible, gpus):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    share = shares("auto", settings(6))
    assert (share.at_once, share.gpus) == (2, gpus)
    four = shares(4, settings(6))
    taken = [four.environment(place)["CUDA_VISIBLE_DEVICES"] for place in range(4)]
    assert taken == [*gpus, *gpus]
