"""Run folders with what no run writes: one paragraph and exit code 2 or 3, or it works."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from torch import nn

from rltrain import errors
from rltrain.common import checkpoint
from rltrain.common.checkpoint.run_checkpoints import seal
from rltrain.common.files import JSON_BYTES, get_json, open_plain, whole_number
from rltrain.errors import UNPRINTABLE, CheckpointError, RltrainError, UsageError, printable
from rltrain.main import run
from tests.helpers import changed_json, record_of, refused
from tests.marks import each_once, slow_except

STATE = (
    (7, "clock metrics latest callbacks rollout.policy.rng callbacks.*Test.best"),
    ("x", "usage torch_rng rollout.policy.rng.uinteger callbacks.*Test.best_untrained"),
    ("x", "callbacks.*Log.written_at callbacks.*Health.undone callbacks.*Health.read_at"),
    ("x", "callbacks.*Health.warned_of_undone"),
    (None, "clock.updates learner callbacks.*Test.tested_at callbacks.*Save.saved_at"),
    (None, "callbacks.*Log.written_at"),
    (-1, "owed callbacks.*Save.due.at rollout.skip rollout.policy.rng.state.state"),
    (-1.0, "usage.seconds usage.cpu_seconds usage.peak_memory_bytes callbacks.*Health.undone"),
    (10**14, "clock.episodes learner.target_update.done_at callbacks.*Test.due.at"),
    (10**14, "callbacks.*Test.tested_at metrics.counts.train/return_mean"),
    (1.5, "learner.target_update.done_at callbacks.*Log.due.at"),
    (0, "metrics.counts.train/return_mean callbacks.*Log.due.interval"),
    ([], "iterations latest.time/learning_share rollout"),
    *((value, "clock.env_steps") for value in ("many", -(10**9), 1e300)),
    *((value, "owed") for value in (10**18, True)),
    (["x"], "callbacks.*Test.best"),
    ({"__tensor__": "rollout.policy.hidden", "torch": True}, "torch_rng"),
    ({"__float__": "nan"}, "usage.seconds"),
    ("MT19937", "rollout.policy.rng.bit_generator"),
    ({}, "rollout.policy.rng.state"),
    ({"at": -5, "interval": 25, "x": 0}, "callbacks.*Log.due"),
    (10**400, "metrics.sums.train/return_mean"),
    (..., "step_hooks test_envs rollout.skip rollout.env callbacks.*Record.best"),
)
"""A value that no run writes, or none (...), and where."""


def checkpoints(run_dir):
    """Its checkpoints, each sealed again after the turn of a loop that changes it."""
    for n in checkpoint.list_steps(run_dir / "checkpoints"):
        yield run_dir / "checkpoints" / str(n)
        seal(run_dir / "checkpoints" / str(n), "full")


def change(file, path, value):
    """Set a value in a JSON file; ``*Test`` is the name with this in it."""
    with changed_json(file) as node:
        *names, last = path.split(".")
        for name in names:
            name = next((n for n in node if name[0] == "*" and name[1:] in n), name)
            node = node.setdefault(name, {})
        node[last] = value
        if value is ...:
            del node[last]


def contents(run_dir):
    files = (path for path in run_dir.rglob("*") if path.is_file() and path.name != "train.log")
    return {path: path.read_bytes() for path in files}


def change_config(run_dir, path, value):
    """Set a value in the configuration of a run and of its checkpoints."""
    change(run_dir / "config.json", path, value)
    for folder in checkpoints(run_dir):
        change(folder / "config.json", path, value)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("value", "path"), [(v, p) for v, paths in STATE for p in paths.split()])
def test_a_state_that_no_run_has_is_refused_before_a_file_is_changed(trained, path, value):
    for folder in checkpoints(trained):
        change(folder / "trainer.json", path, value)
    before = contents(trained)
    assert "checkpoints" in refused(f"resume={trained}", "total_env_steps=170")
    assert contents(trained) == before


@pytest.mark.sampled(2)
@each_once(
    key=["resumes", "environment", "final_test", "best_test", "started"],
    value=[None, 7, "x", [7], {"a": "b"}],
)
def test_a_record_that_no_run_writes_is_passed_over(trained, key, value):
    change(trained / "run.json", key, value)
    assert run([f"resume={trained}", "total_env_steps=165"]) == 0
    found = record_of(trained)
    assert (found["status"], type(found["resumes"])) == ("finished", list)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: x.T.copy() if x.ndim == 2 else x, "is ["),
        (lambda x: x.astype(np.float64), "float64, here "),
        (lambda x: x.astype(np.int8), "int8, here "),
    ],
)
def test_weights_of_other_shapes_or_types_are_named(trained, make, says):
    for folder in checkpoints(trained):
        file = folder / "model.safetensors"
        save_file({name: make(x) for name, x in load_file(file).items()}, file)
    for words in ([f"resume={trained}"], ["mode=evaluate", f"checkpoint={trained}"]):
        assert says in refused(*words)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((name, value) for name in ("algo", "logger", "test") for value in (None, 7, "x", [])),
        ("test.function", "rltrain.env.from_class"),
        ("algo.network.hidden_dim", 10**18),
    ],
)
def test_a_configuration_that_no_run_has_is_answered_in_a_few_lines(trained, path, value):
    change_config(trained, path, value)
    refused(f"resume={trained}", lines=6)
    if path not in ("test", "test.function", "logger"):
        refused("mode=evaluate", f"checkpoint={trained}")


def test_types_of_numbers_without_an_array_are_refused(trained):
    for folder in checkpoints(trained):
        file = folder / "model.safetensors"
        data = file.read_bytes().replace(b'"F32"', b'"I32"')
        torch_only = json.dumps({"x": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 1]}})
        header = torch_only.encode()
        file.write_bytes(len(header).to_bytes(8, "little") + header + data[:1])
    assert "of a type that is not loaded" in refused("mode=evaluate", f"checkpoint={trained}")


def test_only_whole_numbers_name_checkpoints(trained):
    for name in ("1²", "٣", "007", "9" * 200):
        (trained / "checkpoints" / name).mkdir()
    assert run([f"resume={trained}", "total_env_steps=165"]) == 0
    assert whole_number("1²") is whole_number("٣") is whole_number("") is None


@pytest.mark.parametrize("words", [["resume={}"], ["mode=evaluate", "checkpoint={}"]])
@pytest.mark.parametrize("path", ["x" * 256, "ü" * 200, "a/" * 2_000, "~nobody-here/x"])
def test_paths_that_cannot_be_are_answered_with_exit_code_2_or_3(words, path):
    refused(*(word.format(path) for word in words))


def test_a_folder_named_with_a_tilde_is_a_folder(trained, own_folder):
    trained.rename(own_folder / "~tilde")
    assert run(["mode=evaluate", "checkpoint=~tilde", "test.episodes=1"]) == 0


def test_a_deleted_folder_is_named(own_folder, monkeypatch):
    gone = own_folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="no longer exists"):
        run(["algo=dqn", "env=cartpole"])


@pytest.mark.parametrize(
    ("word", "says"),
    [
        *((f"{key}=1000000000", key) for key in ("hardware.n_envs", "test.n_envs")),
        ("hardware.threads=1000000000", "hardware.threads"),
        ("algo.network.hidden_dim=1000000000", "memory"),
        *((f"{key}={'x' * 300}", "255") for key in ("hydra.run.dir", "dataset.write")),
    ],
)
def test_what_no_machine_has_is_refused(small, word, says):
    assert says in refused(*small, word)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("algo.network.hidden_dim", "mode=evaluate checkpoint={}"),
        ("algo.network.hidden_dim", "mode=export checkpoint={}"),
        *((f"algo.{x}", "resume={}") for x in ("network.hidden_dim", "mixer.embed_dim")),
    ],
)
def test_networks_of_other_sizes_than_weights_take_no_memory(trained, monkeypatch, path, command):
    """Defect: networks of a stranger's sizes were made before their weights were compared."""
    register = nn.Module.register_parameter

    def small_or_without_memory(self, name, param):
        assert param is None or param.is_meta or param.numel() < 100_000
        register(self, name, param)

    monkeypatch.setattr(nn.Module, "register_parameter", small_or_without_memory)
    change_config(trained, path, 100_000)
    assert ", here [" in refused(*command.format(trained).split())


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), lambda path: None]
)
def test_what_is_no_file_and_large_files_are_not_read(own_folder, make):
    make(own_folder / "x.json")
    with pytest.raises(OSError, match=r"x\.json"):
        open_plain(own_folder / "x.json")
    (own_folder / "large.json").touch()
    os.truncate(own_folder / "large.json", JSON_BYTES + 1)
    with pytest.raises(ValueError, match="larger than"):
        get_json(own_folder / "large.json")


HOSTILE = "a\x00\x07\x08\r\x1b[31m\x1b]0;t\x07\x7f\x9b\u202e\u2066\u2028\ud800\tb\nc é"
SHOWN = (
    r"a\x00\x07\x08\x0d\x1b[31m\x1b]0;t\x07\x7f\x9b\u202e\u2066\u2028\ud800" + "\tb\nc é"
).replace(r"\x0d", r"\r")


def test_control_characters_are_shown_as_text(own_folder, capsys):
    from rltrain.common.machine.streams import say
    from rltrain.logger.screen import Screen
    from rltrain.logger.train_log import log, train_log

    assert printable(HOSTILE) == SHOWN
    for kind in (CheckpointError, UsageError, errors.EnvError):
        assert str(kind(HOSTILE)) == SHOWN
    say(HOSTILE)
    Screen().print(HOSTILE.replace("\t", ""), soft_wrap=True)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.count(r"\u202e") == 2
    with train_log(Screen(quiet=True)) as keep_in:
        keep_in(own_folder)
        log.warning("%s", HOSTILE)
    assert SHOWN in (own_folder / "train.log").read_text(encoding="utf-8")


def test_without_handlers_and_in_warnings_of_packages_they_are_text_as_well(capfd):
    """In a process of its own: pytest has handlers."""
    code = (
        "import logging, warnings, rltrain.errors\n"
        "from rltrain.common.machine.streams import keep_streams\n"
        "keep_streams()\n"
        f"text = {HOSTILE!a}\n"
        "logging.getLogger('rltrain').warning('%s', text)\n"
        "logging.getLogger('rltrain').warning(text)\n"
        "try: raise ValueError(text)\n"
        "except ValueError: logging.getLogger('rltrain').warning('x', exc_info=True)\n"
        "logging.getLogger('rltrain').warning('%d', 'no number')\n"
        "warnings.warn('\\x1b[33mWARN: ' + text + '\\x1b[0m')\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    shown = capfd.readouterr().err
    assert not UNPRINTABLE.search(shown)
    assert shown.count(SHOWN.split("\t")[0]) == 3
    assert "UserWarning: WARN: a" in shown
    assert "not all arguments" in shown or "%d format" in shown


@pytest.mark.parametrize("file", ["run.json", "config.json"])
def test_names_of_files_and_folders_reach_the_terminal_as_text(trained, own_folder, capsys, file):
    place = own_folder / "a\x1b[31m\u202e"
    trained.rename(place)
    change(place / file, "status" if file == "run.json" else "choices.algo", "\x1b[31mred")
    assert run(["mode=evaluate", f"checkpoint={place}", "test.episodes=1"]) == 0
    out = "".join(capsys.readouterr())
    assert "\x1b" not in out
    assert "\u202e" not in out


READ = {
    "resume": ["resume={}", "total_env_steps=165"],
    "evaluate": ["mode=evaluate", "checkpoint={}", "test.episodes=1"],
    "report": ["mode=report", "runs={}"],
    "config": ["config={}", "total_env_steps=20", "hydra.run.dir=new"],
}
FILES = (
    *("config.json", "run.json", "metrics.jsonl", "train.log", "README.md", "learning_curve.png"),
    *("evaluation.json", ".evaluation.lock", ".hydra/config.yaml"),
    *(f"checkpoints/{name}" for name in ("latest", "best", "162/manifest.json", "162/model.json")),
    *("checkpoints/162/trainer.json", "checkpoints/162/replay.json"),
)
COMBINED = [(name, command) for name in FILES for command in READ]
REFUSING = [(name, "resume") for name in ("metrics.jsonl", "train.log", "checkpoints/latest")]
FAST = [*REFUSING, ("checkpoints/best", "resume")]


@pytest.mark.parametrize("tried", slow_except(FAST, COMBINED), ids=" ".join)
def test_a_folder_in_the_place_of_a_file_is_named_or_passed_over(trained, figures_not_drawn, tried):
    name, command = tried
    (trained / name).unlink(missing_ok=True)
    (trained / name / "x").mkdir(parents=True)
    text = str(trained / name)
    try:
        code = run([word.format(trained) for word in READ[command]])
    except RltrainError as error:
        code, text = error.exit_code, str(error)
    assert "\n" not in text
    assert (str(trained / name) in text) if tried in REFUSING else (code in (0, 2, 3))
