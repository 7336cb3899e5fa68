"""Texts of a stranger's files that could become part of a path: what is written stays in the
folders of the command, or the file is refused in one paragraph. Commands in messages are typed as
they stand, whatever the folders are named.
"""

import os
import re
import shlex
import shutil
from functools import partial
from pathlib import Path

import pytest

from rltrain.common import checkpoint
from rltrain.common.json_text import entry_name
from rltrain.config.compose import compose_single
from rltrain.errors import UNPRINTABLE, CheckpointError, RltrainError
from rltrain.main import run
from rltrain.mode.sweep.plan import SweepJob, SweepPlan, plan_for
from rltrain.mode.sweep.summary import summarize
from tests.helpers import put_sweep, refused
from tests.marks import slow_except
from tests.mode.test_hostile_names import forge

TEXTS = {
    "above": "../../outside/x",
    "absolute": "{outside}/x",
    "a folder in it": "a/b",
    "above in the middle": "a/../../../outside/x",
    "empty": "",
    "itself": ".",
    "parent": "..",
    "control characters": "e\x1b[31m\nz",
    "null": "a\x00b",
    "long": "x" * 300,
}
EVALUATE = "mode=evaluate checkpoint=run test.episodes=1"
REPEAT = "config=run total_env_steps=10"
RESUME = "resume=run total_env_steps=160"
ALL = (EVALUATE, REPEAT, RESUME)
CONFIG = {
    **dict.fromkeys(("choices.algo", "choices.env", "choices.experiment", "choices.x"), (REPEAT,)),
    **dict.fromkeys(("name", "mode", "record", "hub.repo", "match.x", "sweep.dir"), (REPEAT,)),
    **dict.fromkeys(("logger.wandb.project", "logger.wandb.name", "logger.wandb.group"), (REPEAT,)),
    **dict.fromkeys(("test.opponent", "env.opponent", "buffer.folder", "dataset.write"), ALL),
    **dict.fromkeys(("env.replay_prefix", "env.map_name", "report.dir", "tune.dir"), (REPEAT,)),
}
"""Keys of a configuration, and the commands that could write by their values."""
PLACES = [("config.json", key, words) for key, each in CONFIG.items() for words in each]
PLACES += [("spec.json", key, EVALUATE) for key in ("agents", "layout", "actions")]
PLACES += [("run.json", key, RESUME) for key in ("status", "started", "environment")]
PLACES += [("trainer.json", key, RESUME) for key in ("callbacks", "latest", "rollout")]
PLACES += [(name, "", words) for name in ("latest", "best") for words in (EVALUATE, RESUME)]
PLACES += [("sweep.json", "jobs", "resume=sweep")]
TRIED = [(place, text) for place in PLACES for text in TEXTS]
NAMES = ("choices.algo", "choices.env", "jobs")
"""Keys of names of folders that are made."""
FAST = [
    *((place, text) for place in PLACES if place[1] in NAMES[1:] for text in TEXTS),
    *((place, "above") for place in [p for p in PLACES if p[2] != RESUME][::3]),
]


def put(run_dir: Path, file: str, key: str, text: str) -> None:
    """Put a text into a file of a run, or of a sweep beside it."""
    if file == "sweep.json":
        job = {"folder": text, "overrides": ["env=two_step", "total_env_steps=10", "logger=[]"]}
        put_sweep(run_dir.with_name("sweep"), job)
    elif not key:
        (run_dir / "checkpoints" / file).write_text(text)
    else:
        forge(run_dir, file, key, text)


def name_of(tried: tuple[tuple[str, str, str], str]) -> str:
    (file, key, words), text = tried
    return f"{key or file}, {text}, {words.partition('=')[0]}"


@pytest.mark.sampled(14)
@pytest.mark.parametrize("tried", slow_except(FAST, TRIED), ids=name_of)
def test_nothing_is_written_outside(trained_once, tmp_path, monkeypatch, tried):
    (file, key, words), text = tried
    outside, inside = tmp_path / "outside", tmp_path / "a" / "inside"
    outside.mkdir()
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    shutil.copytree(trained_once, "run")
    put(inside / "run", file, key, TEXTS[text].format(outside=outside))
    try:
        code = run(words.split())
    except RltrainError as error:
        code, said = error.exit_code, str(error)
        assert not UNPRINTABLE.search(said)
        refuses = file in said and "\n" not in said
    else:
        refuses = TEXTS[text] == "a/b" and key != "jobs"
    assert code in (0, 1, 2, 3, 4)
    assert refuses or key not in NAMES
    made = {path.name for path in (tmp_path, tmp_path / "a", outside) for path in path.iterdir()}
    assert made == {"outside", "a", "inside"}
    assert {*os.listdir(inside)} <= {"run", "sweep", "outputs", "wandb"}


def test_texts_of_one_part_are_names_and_others_are_not():
    for name in ("0", "0_seed=1", "mein Lauf", "..x", "ü"):
        assert entry_name(name) == name
    for name in TEXTS.values():
        with pytest.raises(ValueError, match="not a folder name"):
            entry_name(name)


NAME = "it's a b"
KEYS = r"'?(?:resume|checkpoint|config)="
NEW = ("env=two_step", "hardware.threads=1", "logger.console=false")
said_of = partial(refused, lines=9)


def of_a_run(run_dir):
    """Refusals about a run and its checkpoints."""
    yield said_of(*NEW, f"hydra.run.dir={run_dir}")
    newest, earlier, *_ = checkpoint.list_steps(run_dir / "checkpoints")
    yield said_of(f"resume={run_dir / 'checkpoints' / str(earlier)}")
    yield said_of(*NEW, "--resume", str(run_dir))
    yield said_of("env=two_step", str(run_dir))
    weights = run_dir.parent / "only weights"
    copy = weights / "checkpoints" / str(newest)
    checkpoint.copy_weights(run_dir / "checkpoints" / str(newest), copy)
    yield said_of(f"resume={copy}")
    with pytest.raises(CheckpointError) as error:
        checkpoint.find(weights, full=True)
    yield str(error.value)


def of_others(folder):
    """Refusals about folders of PyMARL, and of an example of the package."""
    for name in ("one", "two"):
        (folder / "models" / name / "100").mkdir(parents=True)
        (folder / "models" / name / "100" / "agent.th").touch()
    yield said_of("mode=evaluate", f"checkpoint={folder / 'models' / 'one'}")
    yield said_of("mode=import", f"checkpoint={folder / 'models'}", "algo=qmix", "env=smac")
    yield said_of("resume=demo/3m")


def of_a_sweep(folder, capsys, caplog):
    """What is said about a sweep."""
    plan = SweepPlan(folder / "sweep", ("env.kwargs={a: 1}",), "other", 2, "now")
    plan = plan.with_jobs([SweepJob(plan.folder / f"{i}_seed-{i}", ()) for i in range(2)])
    plan.write()
    yield said_of("-m", *NEW, "seed=1,2", f"hydra.sweep.dir={plan.folder}")
    summarize(plan)
    yield capsys.readouterr().out
    settings = compose_single(NEW)[1]
    outputs = Path.cwd() / "outputs" / "multirun" / "other sweep"
    SweepPlan(outputs, plan.overrides, "other", 2, "now", plan.jobs).write()
    plan_for(plan.overrides, [settings], None)
    yield caplog.text
    SweepPlan(plan.folder, plan.overrides, "other", 2, "now").write()
    yield said_of(f"resume={plan.folder}")


def commands(text):
    """The words of a message that suggest an override with a path, up to the next word that is not
    a part of it, as a shell splits them.
    """
    text = text.replace("\n", " ")
    for found in re.finditer(KEYS, text):
        rest = text[found.start() :]
        lexer = shlex.shlex(rest, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            yield next(lexer).rstrip(".,:;)")
        except ValueError as error:
            raise AssertionError(f"{error}: {rest}") from error


def test_paths_with_blanks_and_quotes_can_be_typed_as_shown(trained, own_folder, capsys, caplog):
    folder = own_folder / NAME
    folder.mkdir()
    run_dir = shutil.move(trained, folder / "a run")
    messages = [*of_a_run(run_dir), *of_others(folder), *of_a_sweep(folder, capsys, caplog)]
    paths = 0
    for message in messages:
        said = [word for word in commands(message) if "FOLDER" not in word and "latest" not in word]
        assert said or "rltrain -m" in message, message
        for word in said:
            path = Path(word.partition("=")[2])
            typed = word.partition("=")[2].startswith("demo/")
            assert typed or path.exists(), (word, message)
            paths += " " in str(path)
    assert paths >= 9
    words = shlex.split(messages[-1].partition("rltrain ")[2].rstrip("."))
    assert words == ["-m", "env.kwargs={a: 1}", f"hydra.sweep.dir={folder}/sweep"]
