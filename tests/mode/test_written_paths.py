"""Texts of a stranger's files that could become part of a path: what is written stays in the
folders of the command, or the file is refused in one paragraph.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from rltrain.common.json_text import entry_name
from rltrain.errors import UNPRINTABLE, RltrainError
from rltrain.main import run
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
        plan = {"config_sha256": "0", "n_jobs": 1, "started": ""}
        plan |= {key: ["seed=1"] for key in ("overrides", "typed")}
        run_dir.with_name("sweep").mkdir()
        run_dir.with_name("sweep").joinpath(file).write_text(json.dumps({**plan, "jobs": [job]}))
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


@pytest.mark.parametrize("name", ["0", "0_seed=1", "mein Lauf", "..x", "ü"])
def test_names_of_one_part_are_names(name):
    assert entry_name(name) == name


@pytest.mark.parametrize("name", TEXTS.values())
def test_other_texts_are_no_names(name):
    with pytest.raises(ValueError, match="not a folder name"):
        entry_name(name)
