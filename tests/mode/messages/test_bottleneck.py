"""What limited a run, and what would be faster."""

from __future__ import annotations

import re

import pytest

from rltrain.config.compose import compose_checked
from rltrain.config.validate.settings import check_composition
from rltrain.mode.messages import bottleneck as module
from rltrain.mode.messages.bottleneck import bottleneck

PROCESS = ["hardware=process", "hardware.n_workers=2"]
OVERLAP = [*PROCESS, "hardware.overlap=true"]


@pytest.mark.parametrize(
    ("overrides", "env", "learning", "speed", "cores", "words"),
    [
        ([], 0.9, 0.1, 500, 4, "Worker processes would pay: hardware=process hardware.n_workers=4"),
        ([], 0.9, 0.1, 20_000, 4, "would not pay: an env step is shorter"),
        ([], 0.1, 0.9, 500, 4, "would not pay: too little of it is collecting"),
        ([], 0.9, 0.1, 500, 1, "would not pay"),
        (PROCESS, 0.5, 0.5, 500, 4, "hardware.overlap=true .* at most 2.0 times as fast"),
        (OVERLAP, 0.9, 0.1, 500, 4, "More workers would pay: hardware.n_workers=4"),
        (OVERLAP, 0.9, 0.1, 500, 2, "if they wait rather than compute"),
        (OVERLAP, 0.1, 0.9, 500, 4, "More workers would not pay"),
    ],
)
def test_advice_follows_from_the_shares(monkeypatch, overrides, env, learning, speed, cores, words):
    monkeypatch.setattr(module, "available_cores", lambda: cores)
    settings = check_composition(compose_checked(["env=cartpole", *overrides]))
    row = {"env": env, "acting": 0.0, "sampling": 0.0, "learning": learning}
    metrics = {f"time/{part}_share": share for part, share in row.items()}
    shown = bottleneck(settings, {**metrics, "time/env_steps_per_s": float(speed)})
    assert shown.startswith(f"Time: environment {env:.0%}, acting 0%")
    assert re.search(words, shown), shown


def test_a_run_without_rows_says_nothing():
    settings = check_composition(compose_checked(["env=cartpole"]))
    assert bottleneck(settings, {}) is None


def test_a_row_without_env_steps_gives_no_advice():
    """Defect: a run that was killed at its last checkpoint and resumed ended with a traceback."""
    settings = check_composition(compose_checked(["env=cartpole"]))
    assert bottleneck(settings, {"time/env_share": 0.5}) is None
