"""Recordings of the game: their contents, their table, and the engine playing on them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import record_game
from rltrain.battles.data.maps import find_map
from rltrain.battles.engine.world import U
from rltrain.env.smac.vector import SmacVectorEnv
from tests.env.smac.starcraft2.stand_in import LIMIT, install_game, install_package


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins of the package and the game, in an empty working directory."""
    install_package(tmp_path / "python")
    install_game(tmp_path / "game", "3m", "8m")
    monkeypatch.syspath_prepend(str(tmp_path / "python"))
    monkeypatch.setenv("SC2PATH", str(tmp_path / "game"))
    monkeypatch.setattr(record_game, "OWN_BATTLES", 8)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["record_game", *arguments])
    record_game.main()


@pytest.mark.slow
def test_the_game_is_recorded_and_the_engine_begins_where_it_did(installed, monkeypatch, capsys):
    call(monkeypatch, "3m", "--battles", "3", "--games", "1", "--file", "game.json")
    found = json.loads(Path("game.json").read_text(encoding="utf-8"))
    assert found["about"] == {"backend": "sc2", "package": "smac", "game": "Base75689"}
    starts = found["maps"]["3m"]["starts"]
    assert [start["allies"]["marine"] for start in starts] == [
        [[10 + k, 16], [11 + k, 16], [12 + k, 16]] for k in (0, 1, 0)
    ]
    assert starts[0]["enemies"] == {"marine": [[23.5, 15.25], [22.5, 15.25], [21.5, 15.25]]}
    assert found["maps"]["3m"]["battles"] == [{"win": False, "steps": LIMIT}] * 3
    tracks = np.array(found["maps"]["3m"]["tracks"])
    assert tracks.shape == (2, LIMIT + 1, 6, 5)
    assert tracks[0, :, 0, 0].tolist() == [10, 11, 12, 13, 14]
    assert tracks[0, :, 5, 2].tolist() == [45, 0, 0, 0, 0]
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert row[:3] == ["| 3m", "0", "3"]
    assert row[5:] == ["0.67", *row[6:]]
    assert "first QMIX paper" in row[6]
    env = SmacVectorEnv(map_name="3m", n_envs=8, start_positions="game.json")
    env.reset(lambda e, k: 8 * k + e)
    assert set(env.battles.world.unit[:, U.X, 0].tolist()) == {10, 11}
    call(monkeypatch, "3m", "--file", "game.json", "--table")
    assert capsys.readouterr().out.splitlines()[-1].split(" | ") == row


def test_maps_are_added_to_a_file_and_another_backend_is_refused(installed, monkeypatch, capsys):
    call(monkeypatch, "3m", "--battles", "1", "--file", "game.json", "--backend", "native")
    before = Path("game.json").read_bytes()
    call(monkeypatch, "3m", "--file", "game.json", "--backend", "native")
    assert Path("game.json").read_bytes() == before
    with pytest.raises(SystemExit) as error:
        call(monkeypatch, "3m", "8m", "--file", "game.json")
    assert error.value.code == 2
    assert "game.json was recorded with {'backend': 'native'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call(monkeypatch, "--table", "--file", "none.json")


def test_own_battles_are_recorded_as_they_were_played() -> None:
    env = SmacVectorEnv(map_name="2s3z", n_envs=2, heuristic_ai=True)
    found = record_game.record(env, find_map("2s3z"), 3, 1)
    assert len(found["starts"]) == len(found["battles"]) == 3
    assert found["starts"][0]["allies"]["zealot"] == [
        [8.248, 16.752], [9.752, 16.752], [9.941, 15.505]
    ]  # fmt: skip
    (track,) = np.array(found["tracks"])
    assert len(track) == found["battles"][0]["steps"] + 1
    assert track[0, :5, :2].tolist() == [
        point for row in found["starts"][0]["allies"].values() for point in row
    ]
    assert (track[-1, :, 2] == 0).any()
