"""Of a damaged newest checkpoint an older one plays, and every command that plays it says so."""

import json
import shutil
from pathlib import Path

import pytest

from rltrain.mode.find_run import DEMOS
from rltrain.mode.hub import push
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
