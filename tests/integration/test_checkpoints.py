"""checkpoint= and the files of a run that cannot be read or trusted."""

import re

import pytest

from rltrain.errors import CheckpointError, RltrainError, UsageError
from tests.helpers import forged, nothing_written


@pytest.mark.slow
def test_a_warm_start_is_a_new_run_with_these_weights(command, trained, small, own_folder):
    assert command(*small, f"checkpoint={trained}", "load_step=100", "seed=4") == 0
    assert len(list(own_folder.glob("outputs/*-*/*"))) == 2


@pytest.mark.parametrize("mode", ["mode=evaluate", "mode=train", "resume"])
def test_a_missing_checkpoint(command, small, own_folder, mode):
    overrides = ["resume=nowhere"] if mode == "resume" else [mode, "checkpoint=nowhere"]
    with pytest.raises(CheckpointError) as caught:
        command(*(overrides if mode != "mode=train" else [*small, *overrides]))
    assert caught.value.exit_code == 3
    assert nothing_written(own_folder)


def test_a_broken_checkpoint(command, trained):
    for folder in (trained / "checkpoints").iterdir():
        if folder.is_dir():
            (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match="damaged"):
        command("mode=evaluate", f"checkpoint={trained}")


def test_a_checkpoint_of_another_environment(command, trained, small):
    base = [w for w in small if not w.startswith("env=")]
    with pytest.raises(UsageError) as caught:
        command(*base, "env=smac", f"checkpoint={trained}")
    said = str(caught.value)
    assert "it was trained with qmix on two_step (2 agents, 2 actions, observation" in said
    assert "this run is qmix on smac (3 agents" in said
    assert "Type env=two_step" in said


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (["algo=vdn"], "it is a qmix checkpoint, this run is vdn. Type algo=qmix"),
        (["algo.mixer.embed_dim=8"], "algo.mixer.embed_dim=32, here 8"),
    ],
)
def test_a_checkpoint_of_other_networks_says_what_to_type(command, trained, small, overrides, what):
    with pytest.raises(UsageError, match=re.escape(what)):
        command(*small, *overrides, f"checkpoint={trained}")


def test_a_warm_start_says_what_begins_again(command, trained, small, capsys):
    overrides = [w for w in small if w != "logger.console=false"]
    assert command(*overrides, f"checkpoint={trained}", "total_env_steps=20") == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "networks and targets only, optimizer, replay, schedules and exploration" in said
    assert "(epsilon 1; less with algo.exploration.start) start from scratch" in said


@pytest.mark.parametrize("trust", [[], ["subprocess"]])
@pytest.mark.parametrize("word", ["mode=evaluate checkpoint=", "resume="])
def test_a_run_cannot_vouch_for_its_own_classes(command, trained, own_folder, trust, word):
    evil = {"_target_": "subprocess.getoutput", "cmd": f"touch {own_folder}/PWNED"}
    forged(trained, env=evil, trust=trust)
    overrides = f"{word}{trained}".split()
    with pytest.raises(CheckpointError, match=r"subprocess\.getoutput"):
        command(*overrides)
    assert not (own_folder / "PWNED").exists()


@pytest.mark.parametrize(
    "changes", [{"algo": [1]}, {"algo": {}}, {"callbacks": None}, {"hardware": {}}, {"env": None}]
)
def test_a_broken_configuration_of_a_run_is_refused(command, trained, changes):
    forged(trained, **changes)
    with pytest.raises(RltrainError):
        command(f"resume={trained}")
