"""Presets and files of one's own that compose to nothing are refused, with what to write."""

import re

import pytest

import rltrain
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from tests.conftest import CARTPOLE
from tests.helpers import data_rows
from tests.marks import each_once

ROWS = [*data_rows("refused_presets.txt")]
"""YAML in one line and what is said of it: of a preset, and below the header of a file of ours."""
PRESETS = {
    **{text: (text.encode(), re.escape(said)) for kind, text, said in ROWS if kind == "a preset"},
    "UTF-16": ("total_env_steps: 5\n".encode("utf-16"), "is not UTF-8 text"),
    "bomb": (
        b"a: &a [1,2,3,4,5,6,7,8,9]\n"
        + b"".join(b"%c: &%c [%s]\n" % (c, c, b"*%c," % (c - 1) * 9) for c in b"bcdefgh"),
        "names aliases",
    ),
    "deep": (b"[" * 5_000 + b"]" * 5_000, "is nested too deeply|holds a list|is not YAML"),
    **{
        f"deep {mark}": (mark.encode() * 200_000, "is nested too deeply")
        for mark in ("[", "{", "- ", "? ")
    },
    "large": (b"a: " + b"x" * (1 << 20), "is larger than 1 MB"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_is_none_is_refused(own_folder, name):
    text, said = PRESETS[name]
    (own_folder / "mine.yaml").write_bytes(text)
    with pytest.raises(UsageError, match=said) as refused:
        rltrain.train([*CARTPOLE, "experiment=./mine.yaml"])
    assert len(str(refused.value)) < 900


BAD = ["seed: !!int x", "defaults: [mine]", "wrong", "a: [1"]


@each_once(name=BAD, question=["--help", "--cfg=job", "--cfg=all"])
def test_a_question_about_a_preset_that_is_refused_is_answered(own_folder, command, name, question):
    (own_folder / "own/experiment").mkdir(parents=True)
    text = PRESETS.get(name, (b"defaults: [override /algo: dqnn]",))[0]
    (own_folder / "own/experiment/mine.yaml").write_bytes(text)
    with pytest.raises(UsageError, match=r"cannot be composed|Hydra cannot answer"):
        command(question, "--config-dir=own", "experiment=mine")


HEADER = "# @package _global_\n"
FILES = {text: (HEADER + text, re.escape(said)) for kind, text, said in ROWS if kind == "a file"}
FILES |= {"byte order mark": (f"\ufeff{HEADER}seed: 5\n", r"mine\.yaml begins with a")}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("typed", ["file", "folder"])
@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_named_with_what_to_write(own_folder, name, typed):
    text, said = FILES[name]
    (own_folder / "conf/experiment").mkdir(parents=True)
    (own_folder / "conf/experiment/mine.yaml").write_text(text, encoding="utf-8")
    by_path = ["experiment=conf/experiment/mine.yaml"]
    words = {"file": by_path, "folder": ["hydra.searchpath=[conf]", "experiment=mine"]}[typed]
    if (name, typed) == ("byte order mark", "file"):
        assert compose_checked([*CARTPOLE, *words]).plain["seed"] == 5
        return
    with pytest.raises(UsageError, match=said):
        compose_checked([*CARTPOLE, *words]).settings()


def test_files_of_a_folder_that_are_not_chosen_are_not_refused(own_folder, command, capsys):
    """Defect: one broken file blocked every command."""
    folder = own_folder / "conf/experiment"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("a: [1")
    (folder / "gone.yaml").symlink_to("nowhere")
    (folder / "mine.yaml").write_text("# @package _global_\ndefaults: [broken]")
    (folder / "bare.yaml").write_text("defaults: [override /algo: dqn]")
    (folder / "other.yml").write_text("# @package _global_\nseed: 3")
    for words in (["--cfg=job"], ["--help", "env=cartpole"], ["--help"]):
        assert command("--config-dir=conf", *words) == 0
    assert "cannot be used: experiment=broken says why" in " ".join(capsys.readouterr().out.split())
    for name, said in {
        "broken": "broken.yaml is not YAML",
        "gone": "gone.yaml cannot be read",
        "mine": "broken.yaml is not YAML",
        "bare": "begin the file with '# @package _global_'",
        "other": "other.yml is not read: rename it to other.yaml",
    }.items():
        with pytest.raises(UsageError, match=re.escape(said)):
            compose_checked(["hydra.searchpath=[conf]", f"experiment={name}"])
    with pytest.raises(UsageError, match="is not YAML"):
        command("--config-dir=conf", "-m", "experiment=broken", "seed=0,1")


def test_the_configuration_of_a_preset_that_no_run_accepts_is_not_shown(own_folder, command):
    (own_folder / "mine.yaml").write_text("mode: evaluate")
    with pytest.raises(UsageError, match="mode takes effect only where it is typed"):
        command("--cfg=job", "--package=algo.loss", "experiment=./mine.yaml")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("experiment", "# @package _global_\nlogger: [csv]", "override /logger: [csv]"),
        ("algo", "defaults: [dqn]\nnetwork: gru", "override /algo/network: gru"),
    ],
)
def test_a_choice_among_the_keys_of_a_file_of_a_folder_is_named(own_folder, name, text, said):
    (own_folder / "conf" / name).mkdir(parents=True)
    (own_folder / "conf" / name / "mine.yaml").write_text(text)
    words = [*CARTPOLE, f"{name}=mine", f"hydra.searchpath=[{own_folder / 'conf'}]"]
    with pytest.raises(UsageError, match=rf"mine\.yaml sets .*{re.escape(said)}"):
        rltrain.train(words)
