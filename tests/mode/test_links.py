"""Nothing that a link in a run folder leads to is read, written or deleted."""

import os
import shutil
import socket
from contextlib import suppress

import pytest

from rltrain.errors import CheckpointError, RltrainError
from rltrain.main import run
from tests.helpers import put_sweep, unchanged

LINKED = (
    *("checkpoints", "checkpoints/latest", "checkpoints/best", "checkpoints/162"),
    *("checkpoints/114", "checkpoints/.tmp-250-replaced", "checkpoints/.tmp-9-9"),
    *("checkpoints/162/model.txt", "checkpoints/162/trainer.json", "config.json", "run.json"),
    *("metrics.jsonl", "train.log", "learning_curve.png", "README.md", "evaluation.json"),
    *("recordings", "recordings/162", ".cleared", ".hydra", "wandb"),
    *("wandb/offline-run-20261125_014544-abc", "wandb/x/logs/debug.log", "export.onnx"),
)
"""Names in a run folder that were read, written or deleted, or could be."""


def outside(folder, name):
    """A file, or for the name of a folder a folder, outside of the run."""
    place = folder / "outside"
    place.mkdir(exist_ok=True)
    (place / "file").write_text("kept")
    (place / "inner").mkdir()
    (place / "inner" / "replay.json").write_text("kept")
    is_file = os.path.splitext(name)[1] or name.endswith(("latest", "best"))
    return place / "file" if is_file and not name.startswith("checkpoints/.") else place / "inner"


def put_link(run_dir, name, target):
    """Put a link in place of a file or folder of a run."""
    path = run_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", LINKED)
def test_no_link_in_a_run_folder_is_followed(trained, own_folder, name):
    target = outside(own_folder, name)
    put_link(trained, name, target)
    for words in ([f"resume={trained}"], ["mode=evaluate", f"checkpoint={trained}"]):
        with unchanged(own_folder), pytest.raises(CheckpointError) as refused:
            run(words)
        assert "\n" not in str(refused.value)
        assert f"{trained / name} is a link to {target}" in str(refused.value)


def test_a_run_of_which_the_configuration_is_a_link_is_not_repeated(trained, own_folder):
    """Defect: it was read."""
    put_link(trained, "config.json", outside(own_folder, "config.json"))
    with unchanged(own_folder), pytest.raises(CheckpointError, match=r"config\.json is a link to"):
        run([f"config={trained}"])


@pytest.mark.parametrize("mode", ["watch", "export", "push"])
@pytest.mark.parametrize("target", ["file", "nowhere", "/dev/zero", "~/.ssh"])
def test_every_command_that_reads_a_run_refuses_links(trained, own_folder, mode, target):
    put_link(trained, "metrics.jsonl", own_folder / target)
    words = {"push": ["hub.repo=me/run"]}.get(mode, [])
    with unchanged(own_folder), pytest.raises(CheckpointError, match="is a link to"):
        run([f"mode={mode}", f"checkpoint={trained}", *words])


@pytest.mark.parametrize("inner", ["checkpoints", "weights"])
@pytest.mark.parametrize("typed", ["", "{}", "{}/162", "{}/latest"])
def test_the_whole_run_is_looked_at_whichever_part_was_typed(trained, own_folder, typed, inner):
    """Defect: links beside checkpoints in a folder of another name were followed."""
    typed = typed.format(inner)
    if inner in typed:
        (trained / "checkpoints").rename(trained / inner)
    put_link(trained, "evaluation.json", outside(own_folder, "file.json"))
    with pytest.raises(CheckpointError, match="is a link to"):
        run(["mode=evaluate", f"checkpoint={trained / typed}"])


@pytest.mark.parametrize("name", [".lock", "0_seed-1", "0_seed-1/train.log", "results.csv"])
def test_no_link_in_the_folder_of_a_sweep_is_followed(own_folder, name):
    sweep = own_folder / "sweep"
    put_sweep(sweep, {"folder": "0_seed-1", "overrides": ["seed=1"]})
    put_link(sweep, name, outside(own_folder, name))
    new = ["algo=dqn", "env=cartpole", "seed=1,2", f"hydra.sweep.dir={sweep}"]
    for words in ([f"resume={sweep}"], ["-m", *new]):
        said = r"is a link to|holds another"
        with unchanged(own_folder), pytest.raises(RltrainError, match=said):
            run(words)


def test_no_link_in_the_folder_of_a_study_is_followed(own_folder):
    pytest.importorskip("optuna")
    study = own_folder / "study"
    study.mkdir()
    (study / "study.json").write_text("{}")
    put_link(study, "journal.log", own_folder / "nowhere")
    with pytest.raises(CheckpointError, match="is a link to"):
        run(["mode=tune", "algo=dqn", "env=cartpole", "tune=dqn", f"tune.dir={study}"])
    assert not (own_folder / "nowhere").exists()


MARKS = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a folder": lambda path: path.symlink_to(path.parent),
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", MARKS)
def test_whatever_is_in_place_of_a_file_another_run_does_not_go_on(trained, own_folder, kind):
    """Defects: a run of the sweep was resumed, or an older one than the newest."""
    newest = shutil.copytree(trained, own_folder / "outputs/newest")
    (newest / "run.json").unlink()
    MARKS[kind](newest / "run.json")
    with unchanged(trained), suppress(CheckpointError):
        assert run(["resume=outputs", "total_env_steps=165"]) == 0
    shutil.copytree(trained, own_folder / "sweep/0_seed-1")
    MARKS[kind](own_folder / "sweep/sweep.json")
    with unchanged(own_folder), pytest.raises(CheckpointError, match=r"sweep/sweep\.json"):
        run(["resume=sweep", "total_env_steps=170"])
    pytest.importorskip("optuna")
    (own_folder / "study/trials/0000").mkdir(parents=True)
    MARKS[kind](own_folder / "study/study.json")
    with unchanged(own_folder), pytest.raises(RltrainError, match=r"study/study\.json is "):
        run(["mode=tune", "algo=dqn", "env=cartpole", "tune.dir=study"])


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("name", ["run.json", "metrics.jsonl", "train.log", "new"])
def test_pipes_and_sockets_are_refused_without_waiting(trained, name, kind):
    (trained / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(trained / name)
    else:
        os.chdir(trained)  # the path of a socket is short
        socket.socket(socket.AF_UNIX).bind(name)
    for words in ([f"resume={trained}"], ["mode=evaluate", f"checkpoint={trained}"]):
        with pytest.raises(CheckpointError, match="is a pipe, a device or a socket"):
            run(words)


def test_links_to_a_run_and_those_that_programs_make_in_it_change_nothing(trained, own_folder):
    os.makedirs(trained / "wandb/offline-run-20261125_014544-abc/logs")
    core = "wandb/offline-run-20261125_014544-abc/logs/debug-core.log"
    (trained / "outputs").mkdir()  # of a run that began in this folder
    logs = "wandb/debug.log", "wandb/debug-internal.log", core
    for name in ("wandb/latest-run", *logs, "outputs/latest"):
        (trained / name).symlink_to(own_folder / "nowhere")
    (own_folder / "mine").symlink_to(trained)
    (own_folder / "all").symlink_to("outputs")
    (own_folder / "outputs/latest").symlink_to(trained)
    for path in ("mine", "outputs/latest", f"all/{trained.parent.name}/{trained.name}"):
        assert run(["mode=evaluate", f"checkpoint={path}", "test.episodes=1"]) == 0
    assert run(["resume=mine", "total_env_steps=170"]) == 0
    assert not (own_folder / "nowhere").exists()


def test_only_what_the_manifest_lists_is_sent(trained, own_folder):
    from rltrain.common import checkpoint

    (trained / "checkpoints/162/model.txt").write_text("mine")
    checkpoint.copy_weights(checkpoint.find(trained).folder, own_folder / "sent")
    sent = {path.name for path in (own_folder / "sent").iterdir()}
    parts = {"config.json", "model.json", "model.safetensors", "spec.json"}
    assert sent == {*parts, "manifest.json"}
