"""Of a damaged newest checkpoint an older one plays, and every command that plays it says so; so it
is where a training removes checkpoints while other commands read them.
"""

import json
import shutil
from pathlib import Path

import pytest

import rltrain
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError
from rltrain.mode import evaluate
from rltrain.mode.find_run import DEMOS
from rltrain.mode.hub import push
from rltrain.mode.match import round_robin
from tests.mode.hub.test_hub import Folder

TRAINED = "trained under version 1 of the battle rules"
SMALL = ("env=smac", "env.map_name=3m", "test.episodes=1", "hardware.threads=1")
NEW = (*SMALL, "algo=qmix", "total_env_steps=5", "hardware.n_envs=1", "logger=[]")
COMMANDS = {
    "evaluate": (["mode=evaluate", "checkpoint=RUN", "test.episodes=1"], True),
    "evaluate against it": (
        ["mode=evaluate", "algo=scripted", "algo.policy=closest", *SMALL, "test.opponent=RUN"],
        True,
    ),
    "match": (["mode=match", "checkpoints=[RUN,closest]", "match.battles=2"], True),
    "watch": (["mode=watch", "checkpoint=RUN", "test.episodes=1"], True),
    "push": (["mode=push", "checkpoint=RUN", "hub.repo=me/game"], False),
    "train from it": ([*NEW, "checkpoint=RUN"], True),
    "train against it": ([*NEW, "env.opponent=RUN", "test.opponent=builtin"], False),
}


@pytest.fixture
def damaged(own_folder):
    """A run on 3m whose newest checkpoint has a flipped byte."""
    run_dir = shutil.copytree(DEMOS / "3m", own_folder / "RUN")
    facts = json.loads((run_dir / "run.json").read_text())
    facts["environment"]["rules_version"] = "1"
    (run_dir / "run.json").write_text(json.dumps(facts))
    (newest,) = (path for path in (run_dir / "checkpoints").iterdir() if path.is_dir())
    shutil.copytree(newest, newest.with_name("7"))
    content = bytearray((newest / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (newest / "model.safetensors").write_bytes(content)
    return int(newest.name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_skipped_checkpoint_and_other_rules_are_named(
    damaged, name, command, capsys, caplog, monkeypatch, own_folder
):
    """Defect: only mode=evaluate of the run itself named them."""
    monkeypatch.setattr(push, "client", lambda typed: Folder(own_folder / "hub"))
    words, plays = COMMANDS[name]
    assert command(*words) == 0
    logged = "".join(log.read_text() for log in Path().glob("outputs/**/train.log"))
    said = " ".join(capsys.readouterr().out.split()) + caplog.text + logged
    pages = [page.read_text() for page in Path().glob("outputs/match/*/match.html")]
    for text in [said, *pages]:
        assert f"Skipped checkpoint {damaged}: " in text
        assert (TRAINED in text) == plays
    for file in Path().glob("**/evaluation.json"):
        record = json.loads(file.read_text())
        played = record.get("opponent_checkpoint") or record["checkpoint"]
        assert Path(played) == own_folder / "RUN/checkpoints/7"


def test_the_nearest_checkpoint_is_named(damaged, command, capsys):
    assert command("mode=watch", "checkpoint=RUN", "test.episodes=1", "load_step=50") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "There is no checkpoint of env step 50: 7 is the nearest." in said


READERS = {**COMMANDS, "load_policy": None, "load_step": ([*COMMANDS["evaluate"][0]], True)}
READERS["load_step"][0].append("load_step=220047")


@pytest.fixture
def run_dir(own_folder):
    return shutil.copytree(DEMOS / "3m", own_folder / "RUN")


def read(name, command):
    """Carry out a command that reads the newest checkpoint."""
    if name == "load_policy":
        rltrain.load_policy("RUN")
    else:
        assert command(*READERS[name][0]) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", READERS)
def test_in_place_of_one_that_was_removed_the_newest_is_read(
    run_dir, name, command, monkeypatch, own_folder
):
    """Defect: "'model' cannot be read ([Errno 2] …)", and not a word on what to type."""
    find, chosen = checkpoint.find, []

    def removed(path, *more, **options):
        found = find(path, *more, **options)
        if "RUN" in str(path) and len(chosen) < n_removed:
            found.folder.rename(found.folder.with_name(str(found.step + 1)))
            chosen.append(found.step)
        return found

    monkeypatch.setattr(push, "client", lambda typed: Folder(own_folder / "hub"))
    monkeypatch.setattr(checkpoint, "find", removed)
    n_removed = 2
    read(name, command)
    assert len(chosen) == 2
    n_removed = 99
    said = r"/\d+ is no longer there: a training removes .*best"
    with pytest.raises(CheckpointError, match=said):
        read(name, command)


def test_of_all_checkpoints_those_that_were_played_are_kept(run_dir, command, monkeypatch, capsys):
    for step in ("7", "8", "9"):
        shutil.copytree(run_dir / "checkpoints/220047", run_dir / "checkpoints" / step)
    play, n_played = evaluate.played, []

    def played(settings, source, place):
        n_played.append(source.step)
        if len(n_played) == 2:
            shutil.rmtree(run_dir / "checkpoints/8")
        return play(settings, source, place)

    monkeypatch.setattr(evaluate, "played", played)
    assert command("mode=evaluate", "checkpoint=RUN", "load_step=all", "test.episodes=1") == 0
    assert n_played == [7, 8, 9, 220047]
    said = " ".join(capsys.readouterr().out.split())
    assert "Skipped checkpoint 8: " in said
    assert "3 checkpoints" in said
    assert (run_dir / "evaluation.json").is_file()


def test_a_match_goes_on_with_checkpoints_that_are_removed(run_dir, command, monkeypatch):
    play = round_robin.pairing

    def pairing(*of):
        shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
        return play(*of)

    monkeypatch.setattr(round_robin, "pairing", pairing)
    assert command("mode=match", "checkpoints=[RUN,closest,builtin]", "match.battles=2") == 0
