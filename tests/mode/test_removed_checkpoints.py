"""A training removes checkpoints while other commands read them."""

import shutil

import pytest

import rltrain
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError
from rltrain.mode import evaluate
from rltrain.mode.find_run import DEMOS
from rltrain.mode.hub import push
from rltrain.mode.match import round_robin
from tests.mode.hub.test_hub import Folder
from tests.mode.test_skipped_checkpoints import COMMANDS

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
