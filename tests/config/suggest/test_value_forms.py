"""Numbers, durations and names of plugins in forms that are not read, and what is suggested."""

import random
import re
from pathlib import Path

import pytest

from rltrain.common.machine.install import install_command
from rltrain.config.catalog import SHIPPED
from rltrain.config.suggest.keys import foreign
from rltrain.config.suggest.value_forms import EXAMPLES, duration, for_plugin, for_value, numbers
from tests.config.suggest.test_hints import refusal, suggested, when_typed

ROOT = Path(__file__).parents[3]
UNITS = {"hours": 3600, "seconds": 1}
DURATIONS = re.findall(
    r"^ *(\w+): .*# [^#\n]*?\b(hours|seconds)\b",
    "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "conf").rglob("*.yaml")),
    re.MULTILINE,
)
"""The keys of times, and their units."""
FORMS = {"1h30m": 5400, "90 min": 5400, "2.5 hours": 9000, "1:30:00": 5400, "45s": 45, "2d": 172800}


@pytest.mark.parametrize(("key", "unit"), sorted({*DURATIONS}))
def test_a_duration_with_its_unit_is_converted_for_every_key_of_a_time(key, unit):
    for text, seconds in FORMS.items():
        meant = f"x.{key}={seconds / UNITS[unit]:.6g}"
        assert for_value(f"x.{key}", text, (), lambda _: True).typed == (meant,)


def test_other_texts_are_no_durations():
    assert [duration(t) for t in ("5", "2k", "1h2", "one hour", "h", "1:30", "3 months")] == [
        None
    ] * 7


@pytest.mark.parametrize("n", [80, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_form_of_a_number_raises(n):
    rng = random.Random(0)
    for _ in range(n):
        parts = [".", "..", "_", ",", ":", "-", "/", "%", "**", " ", "1", "23", "0", "k", "M", "e5"]
        parts += ["h", "min", "days", "9" * 400, "9" * 5000, "٣", "²", "inf", "10**", "1:30:"]
        text = "".join(rng.choices(parts, k=rng.randrange(1, 6)))
        for key in ("seed", "stop.hours", "env.timeout"):
            for_value(key, text, (), lambda _: False)
            numbers(f"{key}={text}")
        for name in ("n_seeds", "tau", "eps_decay", "time_limit", "exploration_fraction"):
            list(foreign(name, text, {"total_env_steps": 5}, SHIPPED))


def test_missing_launcher_is_answered_with_what_installs_it():
    submitit = for_plugin("In 'hydra/config': Could not find 'hydra/launcher/submitit_local'")
    assert submitit == f". Type {install_command('hydra-submitit-launcher')}"
    assert "submitit_slurm" in for_plugin("Could not find 'hydra/launcher/slurm'")
    assert for_plugin("Could not find 'hydra/launcher/optuna'") == ""
    assert for_plugin("something else") == ""


PARTS = {
    **dict.fromkeys(EXAMPLES, ""),
    "algo.exploration.points": "algo=dqn env=cartpole algo/exploration=piecewise",
    "algo.network.hidden_sizes": "algo=dqn env=cartpole",
    "algo.optimizer.betas": "algo=dqn env=cartpole",
    "env.kwargs": "env=gymnasium",
    "env.map_weights": "env.maps=[3m,8m]",
    "hardware.worker_resources": "hardware=ray",
    "trust": "",
    "report.ranges": "mode=report",
}
"""Keys of lists and mappings, and choices that have them."""


@pytest.mark.parametrize("value", ["marine", "5", "[marine]", "[1]", "[{a: 1}]", "'a, [b]'"])
@pytest.mark.parametrize("key", PARTS)
def test_a_value_without_the_parts_of_its_key_is_answered_with_one_that_has_them(key, value):
    base = PARTS[key].split()
    text = refusal([*base, f"{key}={value}"])
    if text is None:  # a list is right
        assert value[0] == "["
        return
    words = [*suggested(text)]
    assert words or "The default is " in text
    assert not [again for each in words if (again := when_typed(base, each))]
