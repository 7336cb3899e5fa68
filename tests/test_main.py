"""The command line: questions, wrong commands, messages and exit codes."""

import errno
import logging
import os
import re
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import rltrain
from rltrain.errors import StorageError, UsageError
from tests.helpers import nothing_written


@pytest.mark.parametrize("word", ["hydra.job.chdir=true", "hydra/launcher=joblib", "+hydra.x=1"])
def test_hydras_other_settings_are_refused_by_name(command, small, own_folder, word):
    with pytest.raises(UsageError, match=re.escape(word)):
        command(*small, word)
    assert nothing_written(own_folder)


def test_questions_are_answered_from_the_composition(command, own_folder, capsys):
    answers = {}
    for flags in (["--version"], ["--cfg", "job"], ["--cfg=job", "-p", "algo.loss"]):
        assert command(*flags, "algo=dqn", "env=cartpole", "seed=7") == 0
        answers[flags[0]] = capsys.readouterr().out
    assert answers["--version"] == f"rltrain {rltrain.__version__}\n"
    shown = OmegaConf.create(answers["--cfg"])
    assert (shown.seed, shown.env.id) == (7, "CartPole-v1")
    assert answers["--cfg"].startswith("# algo=dqn ")
    assert "n_step: 3" in answers["--cfg=job"]  # of conf/tuned
    assert "seed" not in answers["--cfg=job"]
    for wrong in (["--help", "algo=qmx"], ["--cfg", "job", "seed=abc"], ["--cfg", "jobs"]):
        with pytest.raises(UsageError):
            command(*wrong)
    assert nothing_written(own_folder)


def test_questions_take_the_files_that_a_command_takes(command, own_folder, capsys):
    """Defect: a preset was unknown by its path, and several paths of a sweep were one."""
    Path("mine.yaml").write_text("# My preset.\nseed: 3  # here\n")
    assert command("--help", "experiment=./mine.yaml") == 0
    assert re.search(r"My preset\.\n.*\n  seed=3 ", capsys.readouterr().out)
    assert command("-m", "--cfg=job", "-p", "checkpoint", "checkpoint=a,b") == 0
    assert re.findall("^[ab]$", capsys.readouterr().out, re.MULTILINE) == ["a", "b"]


@pytest.mark.parametrize("typed", ["--multirun=false", "--resolve=0", "--version=3", "-m=", "-h=x"])
def test_a_switch_takes_no_value(command, own_folder, typed):
    with pytest.raises(UsageError, match=rf"{typed}: {typed.partition('=')[0]} takes no value"):
        command(typed, "seed=1,2")
    assert nothing_written(own_folder)


def test_hydra_answers_what_is_about_hydra(command, own_folder, capsys):
    assert command("--cfg", "hydra") == 0
    assert "launcher:" in capsys.readouterr().out
    assert nothing_written(own_folder)


def test_tab_completion(command, monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", "rltrain hardware=c")
    for shell, separator in (("bash", " "), ("fish", "\n")):
        assert command("-sc", f"query={shell}") == 0
        assert capsys.readouterr().out == f"hardware=cpu{separator}hardware=cuda\n"


@pytest.mark.parametrize("line", ["--config-dir=no", "--cfg=jo", "experiment=no.yaml se"])
def test_an_unfinished_line_is_completed_without_a_refusal(command, monkeypatch, capsys, line):
    """Defect: at the tab key the shell showed what would be wrong with the line as it was."""
    monkeypatch.setenv("COMP_LINE", f"rltrain {line}")
    assert command("-sc", "query=bash") == 0
    assert capsys.readouterr().out == "\n"


WRONG = [
    ["env.map_name=3mm", "env=smac"],
    *([word] for word in ("algo=qmx", "+nonsense=1", "total_env_steps=-1", "algo=[vdn,qmix]")),
    *([word] for word in ("algo.optimizer.lr=nan", "seed=1,2", "--bogus", "mode=evaluate")),
    *([word] for word in ("record=video", "record=1", "buffer.capacity=4", "tune=dqn")),
    *([word] for word in ("buffer.max_bytes=1000", "+algo.optimizer.nonsense=1", "seed=1e99")),
    *([word] for word in ("hydra.run.dir=/proc/nowhere", "hydra.run.dir=", "dataset.write=")),
    *([word] for word in ("report.dir=here", "sweep.jows=2", "seed=${nowhere}")),
    *([word] for word in ("seed=" + "9" * 5000, "x" * 5000)),
]


@pytest.mark.parametrize("overrides", WRONG, ids=lambda w: w[0][:30])
def test_wrong_commands_are_refused_before_a_file_exists(command, small, own_folder, overrides):
    base = [w for w in small if not any(w.split("=")[0] == x.split("=")[0] for x in overrides)]
    with pytest.raises(UsageError) as caught:
        command(*base, *overrides)
    assert caught.value.exit_code == 2
    assert nothing_written(own_folder)


def test_an_unknown_map_names_the_nearest(command, small):
    base = [w for w in small if not w.startswith("env=")]
    with pytest.raises(UsageError, match="8m"):
        command(*base, "env=smac", "env.map_name=8mm")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu(command, small, own_folder):
    with pytest.raises(UsageError, match=r"hardware\.device=cpu"):
        command(*small, "hardware=cuda")
    assert nothing_written(own_folder)


@pytest.mark.parametrize(
    "overrides",
    [
        ["load_step=5"],
        ["resume=x", "load_step=5"],
        ["resume=x", "mode=evaluate"],
        ["-m", "resume=x"],
    ],
    ids=" ".join,
)
def test_words_that_would_be_ignored_are_refused(command, small, overrides):
    with pytest.raises(UsageError):
        command(*overrides, *([] if "resume=x" in overrides else small))


def test_warnings_outside_of_training_say_that_they_are(exit_code, monkeypatch, capsys):
    monkeypatch.setattr("logging.lastResort", logging.StreamHandler())
    exit_code("--version")
    logging.lastResort.handle(logging.makeLogRecord({"msg": "the dataset has ended"}))
    assert capsys.readouterr().err == "warning: the dataset has ended\n"


def test_errors_are_one_paragraph_on_stderr(exit_code, capsys):
    assert exit_code("algo=qmx") == 2
    said = capsys.readouterr().err
    assert said.startswith("rltrain: ")
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 6


@pytest.mark.parametrize("own", ["experiment=good.yaml", "--config-dir=nowhere"])
def test_a_refusal_is_told_where_the_configuration_of_ones_own_is_missing(exit_code, capsys, own):
    assert exit_code(own, "seed=1,2") == 2
    assert "several values for one key" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["resume=run"], ["mode=evaluate", "checkpoint=run"], ["mode=push", "checkpoint=run"]]
)
def test_the_configuration_of_a_run_is_not_answered_with_that_of_a_new_one(command, words):
    with pytest.raises(UsageError, match=r"run has its own: .*Type --cfg job config=RUN_FOLDER"):
        command("--cfg", "job", *words)
    assert command("--cfg", "job", "mode=evaluate", "algo=scripted") == 0
    assert command("--cfg", "job", "checkpoint=run") == 0  # a new run from its weights


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (
            "env=sc2 map_name=3m lr=0.1 seed=3",
            "rltrain env=smac env.map_name=3m algo.optimizer.lr=0.1",
        ),
        ("-m env=sc2 map_name=3m lr=0.1 seed=1,2", "rltrain -m env=smac"),
        ("algo=qmix evaluate=True checkpoint_path=a/b", "rltrain mode=evaluate checkpoint=a/b\n"),
        ("env=cartpole lrr=3 mystery=3", None),
    ],
)
def test_several_wrong_names_are_answered_with_one_command(exit_code, capsys, typed, shown):
    exit_code(*typed.split())
    _, one, command = capsys.readouterr().err.partition("In one command:\n  ")
    assert command.startswith(shown) if shown else not one


DISK = (StorageError, "outputs/x cannot be written: .*Free disk space")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *((number, DISK) for number in (errno.ENOSPC, errno.EROFS, errno.EDQUOT)),
        *((n, (StorageError, "x cannot be read or written: ")) for n in (errno.EACCES, errno.EIO)),
        *((number, (OSError, "x")) for number in (errno.ENOENT, errno.EINVAL, errno.ECONNREFUSED)),
    ],
)
def test_what_a_disk_refuses_is_one_paragraph_with_the_path(command, monkeypatch, number, expected):
    def failing(overrides, **options):
        raise OSError(number, os.strerror(number), "outputs/x")

    monkeypatch.setattr("rltrain.mode.dispatch.dispatch", failing)
    with pytest.raises(expected[0], match=expected[1]):
        command("env=cartpole")
