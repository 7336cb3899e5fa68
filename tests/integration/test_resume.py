"""resume=: continue a run in its folder."""

import inspect
import json
import re
import shutil

import pytest

import rltrain
from rltrain.common import checkpoint
from rltrain.config.command_line import shell_word
from rltrain.config.saved_config import load_config
from rltrain.config.validate.checker import check
from rltrain.errors import UsageError
from rltrain.mode.resume_settings import refuse_changes
from tests.helpers import forged
from tests.integration.promises.states import STATES, typed_words


def test_resume_goes_on_in_the_same_folder(command, trained):
    before = (trained / "metrics.jsonl").read_text()
    assert command(f"resume={trained}", "total_env_steps=190") == 0
    record = json.loads((trained / "run.json").read_text())
    assert record["env_steps"] >= 190
    assert len(record["resumes"]) == 1
    after = (trained / "metrics.jsonl").read_text()
    assert after.startswith(before)
    steps = [json.loads(line)["env_steps"] for line in after.splitlines()]
    assert steps == sorted(steps)
    assert json.loads((trained / "config.json").read_text())["total_env_steps"] == 190


def test_resume_latest_finds_the_newest_run(command, trained, small):
    assert command("resume=latest", "total_env_steps=180") == 0


@pytest.fixture
def unsaved(trained):
    """The run as if it had been killed before its first checkpoint to resume from."""
    latest = trained / "checkpoints/latest"
    for folder in (trained / "checkpoints").glob("*/"):
        shutil.rmtree(folder)
    latest.unlink()
    record = json.loads((trained / "run.json").read_text())
    record |= {"status": "running", "best_test": {"env_steps": 0, "test/return_mean": 99}}
    (trained / "run.json").write_text(json.dumps(record))
    return trained


def without_times(file):
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [{k: v for k, v in r.items() if k != "seconds" and "time/" not in k} for r in rows]


@pytest.mark.slow
@pytest.mark.parametrize(
    "typed", [pytest.param("latest", marks=pytest.mark.slow), "outputs/qmix-two_step"]
)
def test_a_run_without_checkpoint_starts_again_in_its_folder(command, unsaved, trained_once, typed):
    assert command(f"resume={typed}") == 0
    again, once = (without_times(run / "metrics.jsonl") for run in (unsaved, trained_once))
    assert again == once
    record = json.loads((unsaved / "run.json").read_text())
    assert (record["status"], len(record["resumes"])) == ("finished", 1)
    assert record["best_test"]["test/return_mean"] < 99
    assert "starts again at env step 0" in (unsaved / "train.log").read_text()


def test_a_run_that_has_begun_a_dataset_does_not_start_again_over_it(command, unsaved, own_folder):
    (own_folder / "data").mkdir()
    (own_folder / "data/shard").touch()
    dataset = json.loads((unsaved / "config.json").read_text())["dataset"]
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
    file = trained / "metrics.jsonl"
    before = file.read_text()
    file.write_text(before + '{"env_steps": 10000}\n')
    assert command(f"resume={trained}", "total_env_steps=180") == 0
    assert '"env_steps": 10000' not in file.read_text()


def test_a_resume_passes_over_a_broken_checkpoint(command, trained):
    latest = (trained / "checkpoints/latest").read_text().strip()
    (trained / "checkpoints" / latest / "trainer.safetensors").write_bytes(b"")
    assert command(f"resume={trained}", "total_env_steps=180") == 0


def test_resume_takes_the_run_of_a_checkpoint(command, trained):
    latest = (trained / "checkpoints/latest").read_text().strip()
    assert command(f"resume={trained}/checkpoints/{latest}", "total_env_steps=180") == 0
    assert json.loads((trained / "run.json").read_text())["env_steps"] >= 180


def test_a_resume_to_fewer_env_steps_says_that_nothing_is_trained(command, trained, capfd):
    steps = json.loads((trained / "run.json").read_text())["env_steps"]
    assert command(f"resume={trained}", "total_env_steps=7") == 0
    said = " ".join("".join(capfd.readouterr()).split())
    assert f"has {steps} env steps: nothing is trained up to 7" in said
    assert json.loads((trained / "run.json").read_text())["env_steps"] == steps


def test_a_resumed_run_keeps_what_makes_it_the_same_run(command, trained):
    with pytest.raises(UsageError, match=r"algo\.loss\.gamma"):
        command(f"resume={trained}", "algo.loss.gamma=0.5")


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


@pytest.mark.parametrize("typed", ["algo=vdn", "env=matrix", "buffer=replay", "experiment=lbf"])
def test_a_resume_says_how_to_train_with_another_choice(command, trained, typed):
    with pytest.raises(UsageError, match="start a new run from these weights") as caught:
        command(f"resume={trained}", typed)
    assert "Set single keys" not in str(caught.value)


def test_a_resume_says_which_keys_of_a_choice_may_change(command, trained):
    with pytest.raises(UsageError, match=r"keeps its hardware\. Set single keys"):
        command(f"resume={trained}", "hardware=cpu")


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
