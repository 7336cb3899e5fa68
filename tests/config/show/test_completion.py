"""Tab completion offers what can be typed: names, keys, and the values of enumerations."""

import inspect
import os
import shutil
import subprocess
import sys
import types
from dataclasses import is_dataclass
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest
import yaml

from rltrain.battles.data.maps import map_names
from rltrain.common.imports import locate
from rltrain.config.catalog import SHIPPED, Catalog
from rltrain.config.schema import AlgoSettings, HardwareSettings, RunSettings
from rltrain.config.show.completion import complete
from tests.imports import imported
from tests.marks import slow_except


def completed(line):
    return complete(f"rltrain {line}", SHIPPED)


COMPLETED = {
    "alg": ["algo.", "algo/distribution=", "algo=", "algo/network="],
    "algo=d": ["algo=dqn", "algo=drqn"],
    "algo=vdn,q": ["algo=vdn,qmix", "algo=vdn,qrdqn"],
    "experiment=z": ["experiment=zoo/cartpole", "experiment=zoo/acrobot"],
    "experiment=pymarl/": [f"experiment=pymarl/{name}" for name in ("iql", "qmix", "vdn")],
    "algo/network=": ["algo/network=mlp", "algo/network=gru"],
    "env.map_name=": [f"env.map_name={name}" for name in map_names()],
    "env=smacv2 env.map_name=z": ["env.map_name=zerg_5_vs_5"],
    "env=minatar env.game=": ["env.game=breakout", "env.game=seaquest"],
    "env=atari env.game=p": ["env.game=pong", "env.game=pitfall"],
    "mode=": ["mode=train", "mode=evaluate", "mode=export", "mode=import", "mode=doctor"],
    "logger.wandb.mode=o": ["logger.wandb.mode=online", "logger.wandb.mode=offline"],
    "hardware.device=": ["hardware.device=auto", "hardware.device=cpu", "hardware.device=cuda"],
    "algo=dqn buffer.sampler=": ["buffer.sampler=uniform", "buffer.sampler=proportional"],
    "record=": ["record=video", "record=html", "record=false"],
    "stop.metric=test/w": ["stop.metric=test/win_rate"],
    "algo.loss.": ["algo.loss.gamma=", "algo.loss.n_step="],
    "algo=dqn algo.network.d": ["algo.network.dueling="],
    "algo.": ["algo.loss.", "algo.batch_size="],
    "checkpoint=l": ["checkpoint=latest"],
    "seed=": ["seed=0"],
    "--h": ["--help"],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_completion(line):
    found = completed(line)
    assert set(COMPLETED[line]) <= set(found)
    assert all(word.startswith(line.split()[-1]) for word in found)


def test_keys_follow_the_choices():
    assert completed("algo=dqn algo.mixer.") == []
    assert completed("env=cartpole env.id=") == ["env.id=CartPole-v1"]


def test_new_word_is_completed_after_a_blank():
    assert {"algo=", "seed=", "test."} <= set(completed(""))
    assert completed("algo=dqn") == ["algo=dqn"]
    assert "env=" in completed("algo=dqn ")
    assert "algo=dqn" in complete("python -m rltrain algo=d", SHIPPED)


def test_paths_are_completed(tmp_path):
    (tmp_path / "outputs/run").mkdir(parents=True)
    (tmp_path / "prices.csv").touch()
    assert set(completed("checkpoint=")) == {"checkpoint=latest", "checkpoint=outputs/"} | {
        "checkpoint=prices.csv"
    }
    assert completed("checkpoint=outputs/r") == ["checkpoint=outputs/run/"]
    assert completed("env=trading env.prices=p") == ["env.prices=prices.csv"]


@pytest.mark.parametrize("x", ["~nobody9", "x" * 5_000, "a\0", "nowhere"])
def test_a_folder_that_cannot_be_looked_into_has_no_completions(x):
    assert completed(f"runs={x}/") == []


@pytest.mark.parametrize("x", ["a b", "it's", "$(touch x)", "a*", "[a]", "{x}", "a\\b", "é", "a=b"])
def test_names_that_a_shell_would_change_are_not_completed(tmp_path, x):
    """Defect: a folder with a blank was two words, and bash would run what stands in $(…)."""
    (tmp_path / x).mkdir()
    offered = x in ("é", "a=b")
    assert completed("runs=") == [f"runs={x}/"] * offered


def test_folders_of_the_user_are_completed(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/mine.yaml").write_text("# @package _global_\n# Mine.\nseed: 1\n")
    found = complete("rltrain experiment=m", Catalog(tmp_path, *SHIPPED.folders))
    assert "experiment=mine" in found


IN_BASH = """
eval "$(rltrain -sc install=bash)"
for COMP_LINE; do
    COMP_POINT=${#COMP_LINE}; COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    hydra_bash_completion && echo "${COMPREPLY[@]}"
done
"""
BASH_COMPLETED = {
    "experiment=zoo/a": "experiment=zoo/acrobot",
    "env=smac env.map_name=2s_": "env.map_name=2s_vs_1sc",
    "env=smacv2 env.map_name=protoss_5": "env.map_name=protoss_5_vs_5",
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize("line", slow_except([*BASH_COMPLETED][1:2], BASH_COMPLETED))
def test_presets_and_maps_are_completed_in_bash(line):
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-c", IN_BASH, "bash", f"rltrain {line}"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == BASH_COMPLETED[line]


@pytest.mark.slow
def test_completion_imports_no_torch():
    code = (
        "from rltrain.config.show.completion import complete;"
        "from rltrain.config.catalog import SHIPPED;"
        "[complete(f'rltrain {w}', SHIPPED) for w in ('', 'algo=', 'env.')]"
    )
    assert imported(code, "torch", "numba", "pydantic") == []


def enumerations(hints, path):
    """The values of every enumeration among annotations, by key."""
    for name, hint in hints.items():
        parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        for part in parts:
            if get_origin(part) is Literal:
                yield f"{path}{name}", [str(value) for value in get_args(part)]
            elif is_dataclass(part):
                yield from enumerations(get_type_hints(part), f"{path}{name}.")


def of_targets():
    """The enumerations of every class that a choice builds: choice, key, values."""
    for group in SHIPPED.groups:
        for option in SHIPPED.options(group):
            file = SHIPPED.folders[0] / group / f"{option}.yaml"
            target = file.exists() and (yaml.safe_load(file.read_text()) or {}).get("_target_")
            if target:
                call = locate(target)
                hints = get_type_hints(call.__init__ if inspect.isclass(call) else call)
                for path, values in enumerations(hints, f"{group.replace('/', '.')}."):
                    yield f"{group}={option}", path, values


def test_comments_list_the_values_of_every_enumeration():
    roots = {"": RunSettings, "algo.": AlgoSettings, "hardware.": HardwareSettings}
    for path, settings in roots.items():
        for key, values in enumerations(get_type_hints(settings), path):
            found = SHIPPED.keys({})[key].values
            assert len(values) == 1 or {*found} - {"false"} == {*values}, key
    for choice, path, values in of_targets():
        key = SHIPPED.own_keys(*choice.split("=")).get(path)
        assert key is None or len(values) == 1 or sorted(key.values) == sorted(values), (
            f"{choice}: {path} # {key}"
        )
