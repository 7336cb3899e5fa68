"""Presets and files of one's own that compose to nothing are refused, with what to write."""

import re

import pytest

import rltrain
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from tests.integration.test_own_parts_refused import CARTPOLE
from tests.marks import each_once

PRESETS = {
    "list": (b"- a\n- b\n", "holds a list, no keys"),
    "value": (b"much\n", "holds a value, no keys"),
    "UTF-16": ("total_env_steps: 5\n".encode("utf-16"), "is not UTF-8 text"),
    "no YAML": (b"a: [1\n", "is not YAML"),
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
    **{
        f"no {tag}": (f"seed: !!{tag} ''".encode(), f"holds '', which is not of the type {tag}")
        for tag in ("bool", "int")
    },
    "large": (b"a: " + b"x" * (1 << 20), "is larger than 1 MB"),
    "binary": (b"name: !!binary aGk=", "holds a value of the type binary"),
    "no number": (b"seed: !!int x", "cannot be composed: invalid literal for int"),
    **{
        f"seed: {text}": (f"seed: {text}".encode(), f"holds {text}, for YAML another number")
        for text in ("010", "1:30", "0x1F", "0b11", "1:30:00", "1_0:05")
    },
    "hydra": (b"hydra: {run: {dir: foo}}", "sets hydra, which takes effect only where it is typed"),
    "cycle": (b"defaults: [mine]", "cannot be composed: a file is among its own defaults"),
    **{
        f"defaults: {text}": (
            f"defaults: {text}\n".encode(),
            "defaults that are not a list of choices",
        )
        for text in ("", "dqn", "{algo: dqn}", "[5]", "[[dqn]]", "[null]")
    },
    **{
        text: (text.encode(), re.escape(f"below defaults, as '- override /{said}'"))
        for text, said in {
            "logger: [csv, tensorboard]": "logger: [csv, tensorboard]",
            "logger: csv": "logger: [csv]",
            "logger: []": "logger: []",
            "logger:": "logger: []",
            "buffer: prioritized": "buffer: prioritized",
            "env: acrobot": "env: acrobot",
            "algo: c51": "algo: c51",
            "hardware: cpu": "hardware: cpu",
            "tune: dqn": "tune: dqn",
            "algo: {network: gru}": "algo/network: gru",
            "algo: {optimizer: adam, batch_size: 3}": "algo/optimizer: adam",
        }.items()
    },
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_is_none_is_refused(own_folder, name):
    text, said = PRESETS[name]
    (own_folder / "mine.yaml").write_bytes(text)
    with pytest.raises(UsageError, match=said) as refused:
        rltrain.train([*CARTPOLE, "experiment=./mine.yaml"])
    assert len(str(refused.value)) < 900


@each_once(
    name=["no number", "cycle", "wrong", "no YAML"], question=["--help", "--cfg=job", "--cfg=all"]
)
def test_a_question_about_a_preset_that_is_refused_is_answered(own_folder, command, name, question):
    (own_folder / "own/experiment").mkdir(parents=True)
    text = PRESETS.get(name, (b"defaults: [override /algo: dqnn]",))[0]
    (own_folder / "own/experiment/mine.yaml").write_bytes(text)
    with pytest.raises(UsageError, match=r"cannot be composed|Hydra cannot answer"):
        command(question, "--config-dir=own", "experiment=mine")


FILES = {
    "dotted key": (b"# @package _global_\ntest.interval: 5\n", "write test: {interval: …}"),
    "dotted keys": (b"# @package _global_\nalgo: {loss.gamma: 0}\n", "algo: {loss: {gamma: …}}"),
    "wrong option": (b"# @package _global_\ndefaults: [override /algo: dqnn]\n", r"mine\.yaml"),
    "byte order mark": (b"\xef\xbb\xbf# @package _global_\nseed: 5\n", r"mine\.yaml begins with a"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("typed", ["file", "folder"])
@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_named_with_what_to_write(own_folder, name, typed):
    text, said = FILES[name]
    (own_folder / "conf/experiment").mkdir(parents=True)
    (own_folder / "conf/experiment/mine.yaml").write_bytes(text)
    by_path = ["experiment=conf/experiment/mine.yaml"]
    words = {"file": by_path, "folder": ["hydra.searchpath=[conf]", "experiment=mine"]}[typed]
    if (name, typed) == ("byte order mark", "file"):
        assert compose_checked([*CARTPOLE, *words]).plain["seed"] == 5
        return
    with pytest.raises(UsageError, match=said):
        compose_checked([*CARTPOLE, *words]).settings()


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
