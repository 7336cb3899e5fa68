"""The package on its own: the examples of its README, without the libraries of rltrain."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain import battles

README = (Path(battles.__file__).parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"## [^\n]*`(\w+)`\n.*?```python\n(.*?)```", README, flags=re.DOTALL))
LEARNING = ("torch", "hydra", "omegaconf", "pydantic", "yaml", "rich", "psutil", "safetensors")
END = "end of an example"
SPACES = ("gymnasium", "pettingzoo", "PIL")


def run(code, missing):
    """What ``code`` prints where these libraries cannot be imported."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
    command = [sys.executable, "-c", hide + code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        pytest.param(["StarCraft2Env", "Battles"], LEARNING + SPACES, id="without spaces"),
        pytest.param(["parallel_env"], LEARNING, id="with spaces", marks=pytest.mark.slow),
    ],
)
def test_examples_run_without_the_libraries_of_rltrain(names, missing):
    assert all(EXAMPLES[name].count("\n") <= 12 for name in names)
    code = "".join(f"exec({EXAMPLES[name]!r}, {{}}); print({END!r})\n" for name in names)
    parts = run(code, missing).split(END)[:-1]
    assert len(parts) == len(names)
    assert missing == LEARNING or all(re.search("True|False", part) for part in parts)


def test_there_is_an_example_of_every_interface():
    assert [*EXAMPLES] == ["StarCraft2Env", "parallel_env", "Battles"]


@pytest.mark.slow
def test_the_command_compiles_the_engine_without_them():
    (module,) = re.findall(r"^python -m (\S+)", README, flags=re.MULTILINE)
    code = f"import runpy; runpy.run_module({module!r}, run_name='__main__')"
    assert run(code, LEARNING + SPACES) == "the battle engine is compiled\n"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"step_mul": 0}, r"step_mul=0: expected 1, 2, 3, …"),
        ({"step_mul": 1.5}, r"step_mul=1.5: expected 1, 2, 3"),
        ({"move_amount": 0.0}, r"move_amount=0.0: expected a finite number above 0"),
        ({"reward_win": float("nan")}, r"reward_win=nan: expected a finite number"),
        ({"reward_scale": "no"}, r"reward_scale='no': expected True or False"),
        ({"prob_obs_enemy": 1.1}, r"prob_obs_enemy=1.1: expected a number from 0 to 1"),
        ({"start_jitter": 10**400}, r"start_jitter=1000.*: expected a finite number above 0"),
        ({"reward_win": 1e300}, r"reward_win=1e\+300: expected at most 1,000,000,000"),
        ({"reward_death_value": 1e300}, r"reward_death_value=1e\+300: expected at most 1,000"),
        ({"step_mul": 10**9}, r"step_mul=1000000000: expected at most 10,000"),
        ({"reward_win": -165}, r"reward_win=-165.0: .*which is 0\. Expected one above 0"),
        ({"reward_win": -166}, r"reward_win=-166.0: .*which is -1\. Expected one above 0"),
        ({"heuristic_ai": "no"}, r"heuristic_ai='no': expected True or False"),
        ({"heuristic_rest": 2}, r"heuristic_rest=2: expected True or False"),
        ({"continuing_episode": None}, r"continuing_episode=None: expected True or False"),
        ({"difficulty": "Z"}, r"unknown difficulty 'Z': expected one of 1, 2"),
        ({"window_size_x": -3}, r"window_size_x=-3: expected 1, 2, 3"),
        ({"debug": "x"}, r"debug='x': expected True or False"),
        ({"seed": 1.5}, r"seed=1\.5: expected a whole number from 0"),
        ({"seed": -1}, r"seed=-1: expected a whole number from 0"),
        ({"seed": 2**64}, r"seed=18446744073709551616: expected a whole number from 0"),
        ({"start_jitter": 32.5}, r"start_jitter=32.5: expected at most 32, the cells of a map"),
    ],
)
def test_numbers_out_of_range_are_refused(option, expected):
    with pytest.raises(ValueError, match=expected):
        battles.StarCraft2Env(map_name="3m", **option)
