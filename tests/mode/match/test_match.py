"""Matches: what is played and counted, what an interrupted one repeats, and what is refused."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import rltrain
from rltrain.common.files import put_text, take_lock
from rltrain.common.machine import places
from rltrain.errors import CheckpointError, StorageError, UsageError
from rltrain.main import run
from rltrain.mode.match import round_robin
from rltrain.mode.match.agents import requested
from tests.helpers import read_only
from tests.integration.promises.states import BATTLE, COMMON, typed_words
from tests.pages import read_page

DUEL = ("env=pettingzoo", "env.id=tests.env.team.duel:Duel", "env.team=red", "trust=[tests]")
MAP = ("env=smac", "env.map_name=3m", "hardware.threads=1")
OWN = "algo.network={_target_: tests.integration.own_parts.Net}"
SMALL = (*COMMON, "algo=vdn", *BATTLE, "total_env_steps=100", "test.interval=100")


def words(agents, battles=4, *more):
    return ["mode=match", f"checkpoints=[{agents}]", f"match.battles={battles}", *more]


def trained(folder, *more):
    kept = (word for word in SMALL if OWN not in more or "hidden_dim" not in word)
    trainer = rltrain.make_trainer([*typed_words(*kept, *more).values()], run_dir=folder)
    trainer.train()
    trainer.close()
    return folder


@pytest.fixture(scope="module")
def teams(tmp_path_factory):
    """Two runs on 3m."""
    folder = tmp_path_factory.mktemp("teams")
    return [trained(folder / f"team{seed}", f"seed={seed}") for seed in range(2)]


def record():
    """The match.json of the only match."""
    (path,) = Path.cwd().glob("outputs/match/*/match.json")
    return json.loads(path.read_text())


def test_every_pairing_plays_its_battles_on_both_sides(teams, capsys):
    assert run(words(f"{teams[0]}, {teams[1]}, closest, builtin", 2)) == 0
    pairings = record()["pairings"]
    assert record()["request"]["seed"] == 0
    assert len(pairings) == 6
    for each in pairings:
        one_sided = each["second"] == "builtin"
        assert len(each["sides"]) == (1 if one_sided else 2)
        for side in each["sides"]:
            played = side["wins"] + side["draws"] + side["losses"]
            assert played == (2 if one_sided else 1)
        sides = [(side["agents"], side["enemies"]) for side in each["sides"]]
        both = [(each["first"], each["second"]), (each["second"], each["first"])]
        assert sides == both[: len(sides)]
    printed = capsys.readouterr().out
    assert "all with builtin as the enemies" in printed
    assert "Bradley-Terry" in printed
    assert "of the triples are cyclic" in printed
    (page,) = Path.cwd().glob("outputs/match/*/match.html")
    text = page.read_text()
    assert "smac 3m: match of 4 agents" in text
    assert not re.search(r'(src|href)="?http', text)


@pytest.mark.slow
def test_a_match_that_was_interrupted_goes_on_and_ends_as_one_that_was_not(monkeypatch, capsys):
    command = words("closest, focus, kite", 4, *MAP)
    assert run(command) == 0
    whole = record()
    shutil.rmtree("outputs")
    play, played = round_robin.pairing, []

    def interrupted(first, second, *rest):
        if len(played) == 2:
            raise KeyboardInterrupt
        played.append((first.name, second.name))
        return play(first, second, *rest)

    def counted(*of):
        played.append(of)
        return play(*of)

    monkeypatch.setattr(round_robin, "pairing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(command)
    assert len(record()["pairings"]) == 2
    monkeypatch.setattr(round_robin, "pairing", counted)
    capsys.readouterr()
    assert run(command) == 0
    assert len(played) == 3
    assert "2 of them done" in capsys.readouterr().out
    assert record() == whole
    assert run(command) == 0  # all of it is there
    assert len(played) == 3
    assert record() == whole
    assert run([*command, "seed=1"]) == 0  # another match
    assert len(played) == 6


def test_a_match_is_found_again_from_its_beginning_on(monkeypatch):
    """Defect: two equal commands at once both played, and a killed one left an empty folder."""
    command, play = words("closest, builtin", 2, *MAP), round_robin.pairing

    def interrupted(*of):
        assert record()["pairings"] == []
        with pytest.raises(UsageError, match="Another process plays this match"):
            run(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(round_robin, "pairing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(command)
    monkeypatch.setattr(round_robin, "pairing", play)
    assert run(command) == 0
    assert len(record()["pairings"]) == 1
    assert len([*Path("outputs/match").iterdir()]) == 1


def test_of_two_equal_commands_at_once_the_later_one_joins_the_match(monkeypatch, caplog):
    """Defect: a file that could not be read was reported twice, as "not a JSON object"."""
    Path("outputs/match/other/match.json").mkdir(parents=True)
    command, look = words("closest, builtin", 2, *MAP), round_robin.begun

    def locked_out(request):
        """The other one waits until the match of this one is there."""
        handle = os.open("outputs/match", os.O_RDONLY)
        assert take_lock(handle) is False
        os.close(handle)
        return look(request)

    monkeypatch.setattr(round_robin, "begun", locked_out)
    monkeypatch.setattr(round_robin, "pairing", lambda *of: 1 / 0)
    for n in (1, 2):
        with pytest.raises(ZeroDivisionError):
            run(command)
        assert len([*Path("outputs/match").glob("*/match.json")]) == 2
        assert caplog.text.count("outputs/match/other: match.json is left out, since ") == n
    assert "it cannot be read (match.json is a folder)" in caplog.text


def test_the_same_match_from_python(teams):
    agents = [teams[0], "closest"]
    found = rltrain.match(agents, 4, overrides={"seed": 3}, progress=False)
    assert found.names[1] == "closest"
    assert found.ratings.bradley_terry.value.sum() == pytest.approx(0)
    assert [*found.counts("closest")] == [*found.counts(found.names[0])][::-1]
    assert found.counts(teams[0], "closest") == found.counts(found.names[0])
    for wrong, said in (
        (("closets",), f"expected one of {found.names[0]}, closest. Did you mean 'closest'"),
        (("closest", "builtin"), "'builtin' is not in this match"),
        (("closest", "closest"), "closest does not play itself"),
    ):
        with pytest.raises(UsageError, match=re.escape(said)):
            found.counts(*wrong)
    stored = record()
    assert stored["pairings"] == found.pairings
    assert stored["ratings"]["elo"]["closest"][0] == found.ratings.elo.value[1]


def test_an_evaluation_against_the_other_agent_is_one_side_of_a_match(teams):
    found = rltrain.match([teams[0], "closest"], 8, progress=False)
    played = rltrain.evaluate(teams[0], episodes=4, seed=0, overrides={"test.opponent": "closest"})
    assert played.metrics["test/win_rate"] == found.pairings[0]["sides"][0]["wins"] / 4


@pytest.mark.slow
def test_the_first_battle_of_each_side_is_recorded(teams):
    found = rltrain.match([teams[0], "closest"], 2, overrides={"record": True}, progress=False)
    for side in found.sides:
        assert any(name.endswith(".gif") for name in side["files"])
        assert all((found.folder / name).is_file() for name in side["files"])
    page = (found.folder / "match.html").read_text()
    assert page.count("data:image/gif;base64,") == 2


def test_ratings_are_those_of_the_counted_battles():
    found = rltrain.match(["closest", "focus"], 20, overrides=MAP, progress=False)
    won, drawn, lost = found.counts("closest")
    assert won + drawn + lost == 20
    odds = (won + drawn / 2) - (lost + drawn / 2)
    assert np.sign(found.ratings.bradley_terry.value[0]) == np.sign(odds)


def test_a_thousand_pairings_need_a_number_of_battles():
    agents = ", ".join(f"agent{i}" for i in range(46))
    many = "46 agents are 1,035 pairings, with match.battles=200 207,000 battles"
    with pytest.raises(UsageError, match=many):
        run(["mode=match", f"checkpoints=[{agents}]", *MAP])


def test_a_match_of_many_battles_is_continued(own_folder, monkeypatch, capsys):
    """Defect: its file held a seed for each, and from 16 MiB on it was not read again."""

    def pairing(first, second, battles, folder):
        sides = [(a.name, b.name) for a, b in ((first, second), (second, first))]
        counts = {"wins": battles // 2, "draws": 0, "losses": 0, "files": []}
        sides = [{"agents": a, "enemies": b, **counts} for a, b in sides]
        return {"first": first.name, "second": second.name, "sides": sides}

    monkeypatch.setattr(round_robin, "pairing", pairing)
    monkeypatch.setattr(round_robin, "rate", lambda *of: 1 / 0)  # it needs memory for each battle
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            run(words("closest, focus", 10**12, *MAP))
    assert "1 of them done" in capsys.readouterr().out
    assert len([*Path("outputs/match").iterdir()]) == 1


def test_checkpoints_of_another_map_or_another_size_are_refused(teams, tmp_path):
    other = trained(tmp_path / "other", "env.map_name=8m")
    with pytest.raises(UsageError, match=r"env\.map_name=3m and .*env\.map_name=8m.*another map"):
        rltrain.match([teams[0], other], 4)
    wide = trained(tmp_path / "wide", "env.obs_last_action=true")
    with pytest.raises(UsageError, match=r"env\.obs_last_action=False and .*=True"):
        rltrain.match([teams[0], wide], 4)
    with pytest.raises(UsageError, match=r"cannot play .*has obs_shape"):
        rltrain.match([teams[0], wide], 4, overrides={"env.obs_last_action": False})


def test_teams_that_report_no_wins_are_refused_before_anything_is_played(tmp_path):
    """Defect: it ended in a traceback when the battles of a side were over."""
    words = [*COMMON, "algo=vdn", *DUEL, "env.opponent=random", "total_env_steps=20"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path / "run")
    trainer.train()
    trainer.close()
    refused = r"counts won battles, which env=pettingzoo does not report: .* mode=evaluate"
    with pytest.raises(UsageError, match=refused):
        rltrain.match([tmp_path / "run", "random"], 4, trust=["tests"])
    assert not Path("outputs/match").exists()


def test_missing_and_foreign_checkpoints_are_named(teams, tmp_path):
    with pytest.raises(CheckpointError, match="nothing at"):
        rltrain.match([teams[0], "outputs/none"], 4)
    foreign = trained(tmp_path / "foreign", OWN)
    with pytest.raises(CheckpointError, match=r"own_parts\.Net.*trust=\[tests\]"):
        rltrain.match([teams[0], foreign], 4)
    assert not Path("outputs/match").exists()
    found = rltrain.match([teams[0], foreign], 2, trust=["tests"], progress=False)
    assert found.names[1].startswith("foreign")


def test_the_commands_of_the_page_are_matches():
    text = read_page(Path(__file__).parents[3] / "docs" / "matches.md")
    commands = re.findall(r"^rltrain (mode=match .*?)(?:  +#.*)?$", text, re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        assert len(requested(shlex.split(command))[0]) > 1
    shown = next(one for one in commands if "outputs" not in one)
    assert run([*shlex.split(shown), "match.battles=2", "hardware.threads=1"]) == 0


def test_a_pairing_that_cannot_be_written_is_shown(teams, monkeypatch, capsys):
    def full(path, text):
        if path.exists():  # after the first pairing
            raise OSError(28, "No space left on device", str(path))
        put_text(path, text)

    monkeypatch.setattr(round_robin, "put_text", full)
    with pytest.raises(StorageError, match=r"match\.json cannot be written"):
        run(words(f"{teams[0]}, closest", 2))
    assert re.search(r"team0.*closest.*\d", capsys.readouterr().out)


def test_a_match_begins_where_it_can_be_written(teams, monkeypatch):
    monkeypatch.setattr(places, "TemporaryFile", read_only)
    monkeypatch.setattr(round_robin, "pairing", None)
    with pytest.raises(UsageError, match=r"match cannot be written: Read-only .* a folder of"):
        run(words(f"{teams[0]}, closest", 2))
