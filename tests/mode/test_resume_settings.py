"""Resuming refuses a config.json that differs from the checkpoint's, and nothing else."""

import json
import shlex
import shutil

import pytest

from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import FOLDER, kept_opponent, opponent_name
from rltrain.common.checkpoint.run_checkpoints import seal
from rltrain.config.catalog import SHIPPED
from rltrain.config.overrides import leaves, pick, put, typed_value
from rltrain.config.saved_config import load_config
from rltrain.errors import CheckpointError, RltrainError, UsageError
from rltrain.main import run
from rltrain.mode.resume_settings import (
    KEPT_ON_RESUME,
    kept_settings,
    require_saved_settings,
    resumed_settings,
)
from tests.helpers import changed_json
from tests.mode.test_damaged_runs import contents

MAY_MOVE = ("dataset.read", "dataset.write", "buffer.folder", "checkpoint", "checkpoints")
ADDED = [
    ("algo.optimizer.weight_decay", 0.1),
    ("algo.loss.gamma", 0.5),
    ("algo.network.hidden_dim", None),
    ("algo.exploration", {}),
    ("env", None),
    ("algo", []),
    ("seed", "x"),
]


def edited(run_dir, key, value):
    """A run whose config.json has another value, or none."""
    with changed_json(run_dir / "config.json") as config:
        put(config, key, value)


def test_every_setting_that_a_resume_keeps_is_compared(trained_once, tmp_path):
    """Defect: a changed number in config.json changed the rest of the run, exit code 0."""
    config = json.loads((trained_once / "config.json").read_text())
    other = {int: lambda x: x + 1, float: lambda x: x + 0.1, str: lambda x: f"{x}x"}
    run_dir = shutil.copytree(trained_once, tmp_path / "run")
    require_saved_settings(run_dir)
    refused = 0
    for names, value in leaves(config):
        key = ".".join(names)
        changes = {bool: lambda x: not x, list: lambda x: [*x, 7], dict: lambda x: {"a": 7}}
        changed = {**other, **changes}.get(type(value), lambda x: "given")(value)
        shutil.copy(trained_once / "config.json", run_dir / "config.json")
        edited(run_dir, key, changed)
        if not key.startswith(KEPT_ON_RESUME) or key in MAY_MOVE:
            require_saved_settings(run_dir)
            continue
        refused += 1
        with pytest.raises(CheckpointError, match=rf"config\.json says {key}.*put it back"):
            require_saved_settings(run_dir)
    assert refused > 40


@pytest.mark.parametrize(("key", "value"), ADDED)
def test_an_edited_configuration_is_refused_and_nothing_written(command, trained, key, value):
    config = json.loads((trained / "config.json").read_text())
    assert pick(config, key) != value
    edited(trained, key, value)
    before = contents(trained)
    with pytest.raises(RltrainError, match=key.partition(".")[0]) as found:
        command(f"resume={trained}", "total_env_steps=170")
    assert found.value.exit_code in (2, 3)
    assert contents(trained) == before


def test_both_values_are_named(command, trained):
    edited(trained, "algo.loss.gamma", 0.5)
    said = r"config\.json says algo\.loss\.gamma=0\.5, the run's checkpoint 162 says 0\.99: put"
    with pytest.raises(CheckpointError, match=said):
        command(f"resume={trained}", "total_env_steps=170")


def test_the_newest_checkpoint_that_is_not_damaged_counts(trained):
    newest = trained / "checkpoints" / str(checkpoint.list_steps(trained / "checkpoints")[0])
    edited(newest, "algo.loss.gamma", 0.5)  # its checksum is that of the one before
    require_saved_settings(trained)
    seal(newest, "full")
    with pytest.raises(CheckpointError, match=r"gamma=0\.99, .* says 0\.5"):
        require_saved_settings(trained)


def test_a_run_without_a_checkpoint_may_be_changed(command, trained):
    shutil.rmtree(trained / "checkpoints")
    edited(trained, "algo.loss.gamma", 0.5)
    assert command(f"resume={trained}", "total_env_steps=60") == 0


def test_an_option_of_a_newer_version_may_be_added(trained):
    edited(trained, "algo.loss.of_a_later_version", 3)
    require_saved_settings(trained)


OPPONENTS = [
    *("latest", "300", "foo", "closest", "self", "builtin", "outputs/qmix-3m/opponents-x"),
    *("runs/a", "runs/a/checkpoints/best", "runs/a/checkpoints/300", "~/b c", "opponents/latest"),
]


def test_an_option_that_an_older_version_did_not_save_has_its_default(trained):
    """Defect: runs from before ``test.resample`` could not be loaded."""
    nodes = {n: group for n, group in SHIPPED.tree("config").items() if isinstance(group, dict)}
    with changed_json(trained / "config.json") as config:
        config |= {node: {} for node in nodes.keys() & config.keys()}
    loaded, _, _ = load_config(trained / "config.json", [], learns=True, resumes=True)
    assert {node: loaded[node] for node in nodes} == nodes


@pytest.mark.parametrize("opponent", OPPONENTS)
def test_copies_of_opponents_are_the_opponents(opponent):
    """A resume puts the path of the copy into config.json; the next one that of a moved run."""
    chain = [opponent]
    for run_dir in ("/one", "/two", "/three"):
        chain.append(f"{run_dir}/{FOLDER}/{opponent_name(chain[-1])}")
    one = [kept_settings({"env": {"opponent": name}}) for name in chain]
    several = [kept_settings({"env": {"opponents": {"builtin": 1.0, name: 2.0}}}) for name in chain]
    assert one == [one[0]] * 4
    assert several == [several[0]] * 4
    assert one[0] != kept_settings({"env": {"opponent": "another"}})
    assert several[0] != kept_settings({"env": {"opponents": {"builtin": 1.0, opponent: 3.0}}})


@pytest.mark.parametrize("name", ["x" * 5_000, "𝕏" * 80, "a\0b", "\ud800", "x/" + "é" * 300])
def test_whatever_an_opponent_is_called_its_name_is_that_of_a_folder(tmp_path, name):
    assert kept_opponent(tmp_path, name) is None
    (tmp_path / opponent_name(name)).mkdir()


def test_a_saved_folder_may_be_typed_absolute(trained, own_folder):
    """Defect: one message said to leave it out, the next one to type it."""
    edited(trained, "dataset.write", "data it's")
    same, other = (f"{own_folder}/{name}" for name in ("data it's", "others"))
    _, _, changed = load_config(
        trained / "config.json", [f'dataset.write="{same}"'], learns=True, resumes=True
    )
    assert changed == []
    with pytest.raises(UsageError, match=r"keeps its dataset\.write") as refused:
        run([f"resume={trained}", f"dataset.write='{other}'"])
    assert f"leave out dataset.write=\"'{other}'\"." in str(refused.value)
    with pytest.raises(UsageError, match="Type it all") as again:
        run([f"resume={trained}"])
    command = str(again.value).split("\n")[-1]
    assert typed_value(shlex.split(command)[1:], "dataset.write") == "data it's"


@pytest.mark.parametrize(
    ("file", "typed", "said"),
    [
        ("study.json", "all", "the command of the search, typed again, continues"),
        ("sweep.json", ".", "resume=all continues the others of all too"),
        ("study.json", "all/trials/0000/checkpoints/latest", None),
        (None, "all", None),
    ],
)
def test_what_continues_all_runs_of_a_search_or_sweep_is_said(
    file, typed, said, trained, own_folder, caplog
):
    """Defect: ``resume=STUDY`` continued its newest trial and did not say that it was all."""
    run_dir = own_folder / "all" / ("jobs" if file == "sweep.json" else "trials") / "0000"
    run_dir.parent.mkdir(parents=True)
    shutil.move(trained, run_dir)
    if file:
        (own_folder / "all" / file).write_text("{}")
    assert resumed_settings(typed, [])[1] == run_dir
    assert (said in caplog.text) if said else not caplog.text
