"""resume= and checkpoint=: continue a run in its folder, or start a new one from its weights; files
of a run that cannot be read or trusted.
"""

import inspect
import json
import re
import shutil

import pytest

import rltrain
from benchmarks.faults.runs import without_clocks
from rltrain.common import checkpoint
from rltrain.common.files import get_json
from rltrain.config.command_line import shell_word
from rltrain.config.saved_config import load_config
from rltrain.config.validate.checker import check
from rltrain.errors import CheckpointError, RltrainError, UsageError
from rltrain.mode.resume_settings import refuse_changes
from tests.helpers import forged, json_lines, nothing_written, over, said
from tests.integration.promises.states import STATES, typed_words


def test_resume_goes_on_in_the_same_folder(command, trained):
    before = (trained / "metrics.jsonl").read_text()
    assert command(f"resume={trained}", "total_env_steps=190") == 0
    record = get_json(trained / "run.json")
    assert record["env_steps"] >= 190
    assert len(record["resumes"]) == 1
    after = (trained / "metrics.jsonl").read_text()
    assert after.startswith(before)
    steps = [row["env_steps"] for row in json_lines(trained / "metrics.jsonl")]
    assert steps == sorted(steps)
    assert get_json(trained / "config.json")["total_env_steps"] == 190


@pytest.fixture
def unsaved(trained):
    """The run as if it had been killed before its first checkpoint to resume from."""
    latest = trained / "checkpoints/latest"
    for folder in (trained / "checkpoints").glob("*/"):
        shutil.rmtree(folder)
    latest.unlink()
    record = get_json(trained / "run.json")
    record |= {"status": "running", "best_test": {"env_steps": 0, "test/return_mean": 99}}
    (trained / "run.json").write_text(json.dumps(record))
    return trained


def without_times(file):
    return [without_clocks(row) for row in json_lines(file)]


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["latest", "outputs/qmix-two_step"])
def test_a_run_without_checkpoint_starts_again_in_its_folder(command, unsaved, trained_once, typed):
    assert command(f"resume={typed}") == 0
    again, once = (without_times(run / "metrics.jsonl") for run in (unsaved, trained_once))
    assert again == once
    record = get_json(unsaved / "run.json")
    assert (record["status"], len(record["resumes"])) == ("finished", 1)
    assert record["best_test"]["test/return_mean"] < 99
    assert "starts again at env step 0" in (unsaved / "train.log").read_text()


def test_a_run_that_has_begun_a_dataset_does_not_start_again_over_it(command, unsaved, own_folder):
    (own_folder / "data").mkdir()
    (own_folder / "data/shard").touch()
    dataset = get_json(unsaved / "config.json")["dataset"]
    forged(unsaved, dataset={**dataset, "write": "data"})
    before = (unsaved / "metrics.jsonl").read_text()
    with pytest.raises(UsageError, match=r"dataset\.write=data already exists\. Delete it if"):
        command(f"resume={unsaved}", "dataset.write=data")
    assert (unsaved / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize("overrides", [["resume=latest"], ["mode=evaluate", "checkpoint=x"]])
def test_hydras_own_settings_are_for_new_runs(command, overrides):
    with pytest.raises(UsageError, match=r"hydra\.run\.dir=here: Hydra's own settings"):
        command(*overrides, "hydra.run.dir=here")


def test_a_resume_cuts_metrics_back_to_the_checkpoint(command, trained):
    """And passes over a broken checkpoint."""
    file = trained / "metrics.jsonl"
    before = file.read_text()
    file.write_text(before + '{"env_steps": 10000}\n')
    latest = (trained / "checkpoints/latest").read_text().strip()
    (trained / "checkpoints" / latest / "trainer.safetensors").write_bytes(b"")
    assert command(f"resume={trained}", "total_env_steps=180") == 0
    assert '"env_steps": 10000' not in file.read_text()


@pytest.mark.parametrize("typed", ["latest", "checkpoints"])
def test_resume_takes_the_newest_run_and_that_of_a_checkpoint(command, trained, typed):
    latest = (trained / "checkpoints/latest").read_text().strip()
    path = {"latest": "latest", "checkpoints": f"{trained}/checkpoints/{latest}"}[typed]
    assert command(f"resume={path}", "total_env_steps=160") == 0
    assert get_json(trained / "run.json")["env_steps"] >= 160


def test_a_resume_to_fewer_env_steps_says_that_nothing_is_trained(command, trained, capfd):
    steps = get_json(trained / "run.json")["env_steps"]
    assert command(f"resume={trained}", "total_env_steps=7") == 0
    assert f"has {steps} env steps: nothing is trained up to 7" in said(capfd)
    assert get_json(trained / "run.json")["env_steps"] == steps


def test_a_kill_while_a_run_starts_again_does_not_end_it(command, unsaved, monkeypatch):
    """Defect: what was left of its first weights looked like a damaged checkpoint, exit code 3."""
    checkpoint.write(unsaved / "checkpoints", 0, {"model": {}}, "weights")

    def killed(folder, ignore_errors):
        for manifest in folder.rglob("manifest.json"):
            manifest.unlink()
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(SystemExit):
            command(f"resume={unsaved}")
    assert command(f"resume={unsaved}") == 0
    assert not (unsaved / ".cleared").exists()


KEPT = """seed=1 algo.batch_size=4 algo.loss.gamma=0.5 algo.loss.double=false
    algo.optimizer.lr=0.1 algo.max_grad_norm=1 algo.network.hidden_dim=8 algo.updates_per_episode=2
    algo.steps_per_collect=4 algo.learning_starts=9 algo.exploration.end=0.5
    algo.exploration.env_steps=99 algo.target_update.episodes=3 buffer.capacity=32
    buffer.max_bytes=1e9 buffer.precision=float16 hardware.n_envs=2"""
CHANGED = """total_env_steps=450 test.interval=60 test.episodes=2 test.epsilon=0.1 test.n_envs=1
    save.interval=30 save.keep_last=1 save.replay_buffer=false log.interval=30 logger.console=true
    stop.hours=1 hardware.threads=2"""
UNKNOWN = (
    "algo.gamma=0.5 env.length=2 env=matrix algo=vdn buffer=replay +algo.loss.extra=1 nothing=3"
)

MAPPINGS = ["dataset={write: data}", "algo.optimizer={lr: 0.1}"]


@pytest.mark.parametrize("typed", [*KEPT.split(), *UNKNOWN.split(), *MAPPINGS])
def test_a_resume_refuses_what_would_make_it_another_run(typed, trained_once):
    with pytest.raises(UsageError):
        refuse_changes(load_config(trained_once / "config.json", [typed], learns=True)[2], [typed])


@pytest.mark.parametrize(
    ("typed", "changed"),
    [
        ("seed=7", ["seed"]),
        ("checkpoint=a/b", ["checkpoint"]),
        ("~env.kwargs.x", ["env.kwargs.x"]),
        ("~env.kwargs", ["env.kwargs.x", "env.kwargs.y"]),
        ("+env.kwargs.z=1", ["env.kwargs.z"]),
        ("env.kwargs={}", ["env.kwargs.x", "env.kwargs.y"]),
    ],
)
def test_a_resume_names_what_it_keeps_and_what_to_leave_out(typed, changed):
    said = f"A resumed run keeps its {', '.join(changed)}: leave out {shell_word(typed)}. To train"
    with pytest.raises(UsageError, match=f"^{re.escape(said)}"):
        refuse_changes([*changed, "stop.hours"], [typed, "stop.hours=1", "env.kwargs_x=1"])


@pytest.mark.parametrize("typed", CHANGED.split())
def test_a_resume_accepts_what_leaves_the_learning_as_it_is(typed, trained_once):
    tree, choices, changed = load_config(trained_once / "config.json", [typed], learns=True)
    refuse_changes(changed, [typed])
    assert changed == [typed.partition("=")[0]]
    check(tree, choices, {})


def test_of_a_mapping_the_keys_inside_count_as_changed(trained_once):
    typed = ["test={interval: 50, episodes: 2, epsilon: 0.1}", "dataset={held_out: 0.1}"]
    tree, _, changed = load_config(trained_once / "config.json", typed, learns=True)
    assert (changed, tree["test"]["n_envs"]) == (["test.episodes", "test.epsilon"], 2)


FIXED = (
    *("n_envs", "n_agents", "capacity", "length", "looks_back", "burn_in", "n_step", "hidden_dim"),
    "n",
    *("at", "undone", "read_at", "drawn_at"),  # state
)


def settings_of(trainer):
    """The numbers that parts with a state are made with, and keep as attributes: (part, name)."""
    found, parts, seen = [], [trainer], set()
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif type(part).__module__.startswith("rltrain.") and id(part) not in seen:
            seen.add(id(part))
            held = getattr(part, "__dict__", {})
            parts += [below for name, below in held.items() if name != "env"]
            if hasattr(part, "load_state_dict"):
                made_with = (*inspect.signature(type(part)).parameters, "alpha", "floor")
                names = [name for name in made_with if type(held.get(name)) in (int, float)]
                found += [(part, name) for name in names if name not in FIXED]
    return found


@pytest.mark.parametrize("state", [pytest.param("rainbow", marks=pytest.mark.slow), "self_play"])
def test_a_restore_brings_state_and_leaves_settings(state, own_folder):
    words = typed_words(*STATES[state].words).values()
    trainer = rltrain.make_trainer(words, run_dir=own_folder / "run")
    trainer.train()
    trainer.save()
    settings = settings_of(trainer)
    changed = [getattr(part, name) + 1 for part, name in settings]
    for (part, name), value in zip(settings, changed, strict=True):
        setattr(part, name, value)
    trainer.restore(own_folder / "run")
    assert [getattr(part, name) for part, name in settings] == changed


@pytest.mark.parametrize("typed", ["mode=evaluate checkpoint", "checkpoint", "resume"])
def test_a_missing_checkpoint(command, small, own_folder, typed):
    with pytest.raises(CheckpointError) as caught:
        command(*(small if typed == "checkpoint" else []), *f"{typed}=nowhere".split())
    assert caught.value.exit_code == 3
    assert nothing_written(own_folder)


def test_a_file_in_the_place_of_a_run(command, own_folder):
    (own_folder / "file.py").touch()
    with pytest.raises(RltrainError, match="there is a file, which is not a run folder, at"):
        command("resume=file.py")


def test_a_broken_checkpoint(command, trained):
    for folder in (trained / "checkpoints").iterdir():
        if folder.is_dir():
            (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match="damaged"):
        command("mode=evaluate", f"checkpoint={trained}")


def test_a_warm_start_is_a_new_run_with_these_weights(command, trained, small, own_folder, capsys):
    words = ["logger.console=true", f"checkpoint={trained}", "total_env_steps=20"]
    assert command(*over(small, *words, "load_step=100", "seed=4")) == 0
    assert len(list(own_folder.glob("outputs/*-*/*"))) == 2
    shown = said(capsys)
    assert "networks and targets only, optimizer, replay, schedules and exploration" in shown
    assert "(epsilon 1; less with algo.exploration.start) start from scratch" in shown


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
